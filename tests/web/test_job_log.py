"""The end of a job's log: only of regular files in its folder, bounded, without secrets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.jobs.folders import make_job
from tests.support.rights import modes_count
from tests.web.served import served_page
from tidegate import operate
from tidegate.core.errors import Code, TidegateError
from tidegate.operate import JobLog
from tidegate.operate.job_log import BYTES_READ, CHARACTERS_OF_A_LINE, read_log
from tidegate.storages.schemes import Folder


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = make_job(tmp_path) / "logs"
    folder.mkdir()
    return folder


def log_of(logs: Path) -> JobLog:
    return operate.open(logs.parent.parent, logs.parent.name).log()


def test_the_newest_log_counts(logs: Path) -> None:
    for name, at in (("run-1.log", 100), ("run-2.log", 300), ("spark.log", 200)):
        (logs / name).write_text(f"of {name}\n")
        os.utime(logs / name, (at, at))
    assert log_of(logs) == JobLog(path=str(logs / "run-2.log"), lines=("of run-2.log",))


def test_a_job_without_a_log_says_so(logs: Path) -> None:
    assert log_of(logs).lines == ()
    assert "no log" in log_of(logs).problem
    logs.rmdir()
    assert "no log" in log_of(logs).problem


def test_the_logs_of_a_job_on_a_server_are_on_another_machine() -> None:
    assert "not on a disk" in read_log(Folder.of("hdfs://namenode:8020/jobs/job")).problem


def test_nothing_is_read_through_a_link(logs: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    (logs / "a.log").symlink_to(secret)
    assert log_of(logs).lines == ()
    (logs / "a.log").unlink()
    logs.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "spark.log").write_text("the secret\n")
    logs.symlink_to(elsewhere)
    assert log_of(logs).lines == ()
    assert "no folder of its own" in log_of(logs).problem


def test_a_link_that_takes_the_place_of_a_log_while_it_is_read_is_not_followed(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    (logs / "a.log").symlink_to(secret)
    monkeypatch.setattr("tidegate.operate.job_log._newest", lambda _folder: "a.log")
    with pytest.raises(TidegateError) as caught:
        log_of(logs)
    assert caught.value.catalogue_entry is Code.STORAGE_UNUSABLE


def test_a_pipe_in_the_place_of_a_log_delays_nobody(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(logs / "a.log")
    assert log_of(logs).lines == ()
    monkeypatch.setattr("tidegate.operate.job_log._newest", lambda _folder: "a.log")
    assert log_of(logs).lines == ()


def test_of_a_long_log_the_end_is_read_from_a_whole_line_on(logs: Path) -> None:
    line = "x" * 99 + "\n"
    (logs / "a.log").write_text("the first line\n" + line * (2 * BYTES_READ // 100) + "the last line\n")
    lines = log_of(logs).lines
    assert BYTES_READ // 100 - 2 <= len(lines) <= BYTES_READ // 100 + 1
    assert lines[-1] == "the last line"
    assert set(lines[:-1]) == {line.strip()}


def test_a_long_line_is_cut_and_bytes_that_are_no_text_are_shown_as_such(logs: Path) -> None:
    (logs / "a.log").write_bytes(b"y" * (2 * CHARACTERS_OF_A_LINE) + b"\n\xff\x00z\n")
    first, second = log_of(logs).lines
    assert len(first) == CHARACTERS_OF_A_LINE
    assert second == "\ufffd\x00z"


KEY = "-----BEGIN PRIVATE KEY-----\nof-the-key\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize("before", ["", "x" * (BYTES_READ - 10) + "\n"], ids=["whole", "cut"])
def test_secrets_are_hidden_also_a_key_whose_beginning_is_not_read(logs: Path, before: str) -> None:
    text = KEY + "sasl.password=hunter2hunter2\nAuthorization: Bearer abcdefghijklmnop\nan ordinary line\n"
    whole = text if not before else text.replace("of-the-key\n", "of-the-key\n" * (BYTES_READ // 11))
    (logs / "a.log").write_text(whole)
    shown = "\n".join(log_of(logs).lines)
    assert "of-the-key" not in shown
    assert "hunter2" not in shown
    assert "abcdefgh" not in shown
    assert "an ordinary line" in shown


def test_a_log_that_may_not_be_read_is_an_error_of_the_storage(logs: Path) -> None:
    (logs / "a.log").write_text("a line\n")
    logs.chmod(0)
    with modes_count(), pytest.raises(TidegateError) as caught:
        log_of(logs)
    logs.chmod(0o755)
    assert caught.value.catalogue_entry is Code.STORAGE_UNUSABLE


def test_the_view_gives_the_newest_lines_that_have_the_text(logs: Path) -> None:
    (logs / "a.log").write_text("".join(f"line {number} {'Warning' if number % 2 else ''}\n" for number in range(9)))
    with served_page(logs.parent.parent) as page:
        assert page.ask("/jobs/job/log?lines=2").json["lines"] == ["line 7 Warning", "line 8 "]
        assert page.ask("/jobs/job/log?lines=2&filter=warn").json["lines"] == ["line 5 Warning", "line 7 Warning"]
        assert page.ask("/jobs/job/log?filter=nothing").json["lines"] == []
        for wrong in ("lines=0", "lines=5001", "lines=x", "path=/etc/passwd", f"filter={'x' * 201}"):
            assert page.ask(f"/jobs/job/log?{wrong}").status == 400
