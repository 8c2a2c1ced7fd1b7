"""What a program says that is only checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.core.health import Health
from tidegate.logs.last_word import VERBOSE
from tidegate.operate.app_check import CHECKED, NOTED, check_app, check_restore
from tidegate.savepoints.restoring import Restore


def program(folder: Path, *lines: str) -> Path:
    path = folder / "app.py"
    path.write_text("import os, sys\n" + "".join(f"print({line!r}, file=sys.stderr)\n" for line in lines))
    return path


def test_what_is_to_be_mended_in_the_program_is_a_warning_and_no_failure(tmp_path: Path):
    note = "query q: aggregation (word) (sum(n)) has no uid, so its state goes by its place; add behind it: rows = uid"
    warned, passed = check_app(program(tmp_path, f"{NOTED}{note}", f"{CHECKED}q"), [], [], {})
    assert (warned.health, passed.health) == (Health.WARN, Health.OK)
    assert warned.detail.endswith("goes by its place")
    assert warned.next == "add behind it: rows = uid"


def test_with_verbose_all_that_the_program_says_is_shown_and_not_what_the_command_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = program(tmp_path, "WARN of Spark's", f"{CHECKED}q")
    check_app(path, [], [], {})
    assert capsys.readouterr() == ("", "")
    check_app(path, [], [], {VERBOSE: "1"})
    assert capsys.readouterr() == ("", "WARN of Spark's\n")


def test_a_restore_that_is_checked_is_told_which_operators_may_be_others(tmp_path: Path):
    path = program(tmp_path)
    path.write_text(path.read_text() + "sys.exit(0 if os.environ.get('ALLOWS') == 'totals' else 3)\n")
    found = check_restore(path, [], [], Restore("savepoint"), {"ALLOWS": "totals"})
    assert found.problems[0].detail == "it ended without starting a job"
    assert "it ended with 3" in check_restore(path, [], [], Restore("savepoint"), {}).problems[0].detail
