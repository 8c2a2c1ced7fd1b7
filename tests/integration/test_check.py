"""`tidegate check`: one line for each thing that a job stands on, what is wrong with it, and nothing left behind."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from tests.integration.place import Place
from tests.support.command import tidegate
from tests.support.killed_job import KilledJob
from tests.support.today import turn
from tidegate import FileSink
from tidegate.cli.exits import Exit
from tidegate.core.guarantees import Guarantee
from tidegate.core.levels import Level
from tidegate.operate.app_check import GUARANTEED
from tidegate.storages.local.storage import LocalStorage

Lines = dict[str, dict[str, str]]


def check(*arguments: str, **environment: str) -> tuple[int, list[dict[str, str]]]:
    with patch.dict(os.environ, environment):
        done = tidegate("check", "--json", *arguments)
    return done.code, json.loads(done.stdout)


def by_name(found: list[dict[str, str]]) -> Lines:
    return {each["what"]: each for each in found}


def test_a_machine_where_all_is_well(tmp_path: Path) -> None:
    code, found = check("--dir", str(tmp_path / "not-yet" / "checkpoints"))
    lines = by_name(found)
    assert list(lines) == [
        "Python",
        "Java",
        "user",
        "Spark",
        "extra kafka",
        "extra hdfs",
        "extra s3",
        "extra postgres",
        "extra mysql",
        "extra redis",
        "extra delta",
        "extra iceberg",
        "extra ui",
        "settings",
        "storage",
        "locks",
        "space",
        "clock",
    ]
    assert {each["health"] for each in found} <= {"OK", "WARN"}
    assert code == Exit.OK
    assert "pyspark 4." in lines["Spark"]["detail"]
    assert "version" in lines["Java"]["detail"]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_person_sees_one_line_each(tmp_path: Path) -> None:
    done = tidegate("check", "--dir", str(tmp_path))
    assert done.code == Exit.OK
    assert [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")] <= ["OK"] * 9 + ["WARN"]


def test_every_setting_that_does_not_fit_is_listed(tmp_path: Path) -> None:
    code, found = check("--dir", str(tmp_path), "-D", "checkpointing.interval=soon", "-D", "nonsense=1")
    failed = [each for each in found if each["health"] == "FAILED"]
    assert code == Exit.FAILED
    assert [each["detail"].split(":")[0] for each in failed] == ["TG-SETTING-VALUE", "TG-SETTING-UNKNOWN"]
    assert all(each["next"] for each in failed)


def test_a_storage_on_which_two_writers_both_win_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LocalStorage.put_if_absent

    def both_win(self: LocalStorage, name: str, data: bytes) -> bool:
        return honest(self, name, data) or name.startswith("race-")

    monkeypatch.setattr(LocalStorage, "put_if_absent", both_win)
    code, found = check("--dir", str(tmp_path))
    assert (code, by_name(found)["storage"]["health"]) == (Exit.FAILED, "FAILED")
    assert "both created the file" in by_name(found)["storage"]["detail"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, found = check("--dir", str(tmp_path / "file" / "checkpoints"))
    assert by_name(found)["storage"]["health"] == ("FAILED" if code else "OK")
    place = Path("/proc/self/task")  # nobody may make a folder in there, whatever his rights
    if place.exists():
        code, found = check("--dir", str(place))
        assert (code, by_name(found)["storage"]["health"]) == (Exit.FAILED, "FAILED")
        assert str(place) in by_name(found)["storage"]["detail"]


def test_a_machine_without_java_is_told_what_to_install(tmp_path: Path) -> None:
    code, found = check("--dir", str(tmp_path), PATH=str(tmp_path), JAVA_HOME="")
    assert (code, by_name(found)["Java"]["health"]) == (Exit.FAILED, "FAILED")
    assert "apt-get install" in by_name(found)["Java"]["next"]


def test_the_sinks_of_a_job_are_looked_at(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    code, found = check("--dir", str(job.root), "--job", "job")
    lines = by_name(found)
    assert (code, lines["sink counts/table"]["health"], lines["sink counts/files"]["health"]) == (Exit.OK, "OK", "OK")

    with closing(sqlite3.connect(job.table.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        code, found = check("--dir", str(job.root), "--job", "job")
    assert (code, by_name(found)["sink counts/table"]["health"]) == (Exit.FAILED, "FAILED")
    assert "database is locked" in by_name(found)["sink counts/table"]["detail"]

    job.table.path.write_bytes(b"no database" * 1000)
    code, found = check("--dir", str(job.root), "--job", "job")
    assert "not a database" in by_name(found)["sink counts/table"]["detail"]


def test_a_job_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    done = tidegate("check", "--dir", str(tmp_path), "--job", "nobody")
    assert done.code == Exit.UNKNOWN_JOB


PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tidegate import FileSource, Job, SQLiteSink, FileSink

here = Path(sys.argv[1])
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
job = Job("job", spark=spark, checkpointing_dir=str(here / "checkpoints"))
words = job.source("words", FileSource(str(here / "in"), format="json", schema="word string"))
table = SQLiteSink("table", here / "out.db", table="words", key=sys.argv[2])
job.query("query", words, mode=sys.argv[3], sinks=[table, FileSink("files", here / "out", format="text")])
job.run()
"""


def app(tmp_path: Path, text: str) -> str:
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "app.py").write_text(text)
    return str(tmp_path / "app.py")


def of_app(found: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [each for each in found if each["what"].endswith("app.py")]


def test_a_job_in_check_only_mode_ends_its_program_before_anything_is_written(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDEGATE_CHECK_ONLY", "1")
    job = place.job()
    job.query("query", place.words(job), sinks=[FileSink("files", place.folder / "out", format="json")])
    with pytest.raises(SystemExit) as ended:
        job.run()
    assert ended.value.code == 0
    *_, guarantee, last = capsys.readouterr().err.splitlines()
    assert last.endswith("no problem prevents a start of job job")
    found = msgspec.json.decode(guarantee.removeprefix(GUARANTEED), type=Guarantee)
    assert (found.query, found.sink, found.level) == ("query", "files", Level.EXACTLY_ONCE)
    assert [path.name for path in place.folder.iterdir()] == ["in"]


@pytest.mark.more
def test_a_program_is_run_up_to_its_start_and_writes_nothing(tmp_path: Path) -> None:
    program = app(tmp_path, PROGRAM)
    code, found = check(program, "--dir", str(tmp_path), "--", str(tmp_path), "word", "append")
    assert (code, [each["health"] for each in of_app(found)]) == (Exit.OK, ["OK"]), found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py", "in"]


@turn(2, of=4)
def test_everything_against_its_start_is_listed_at_once(tmp_path: Path) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    program = app(tmp_path, PROGRAM)
    (tmp_path / "out").touch()  # a file where a folder is needed
    code, found = check(program, "--dir", str(tmp_path), "--", str(tmp_path), "nothing", "append")
    assert code == Exit.FAILED
    codes = [each["detail"].split(":")[0] for each in of_app(found)]
    assert "TG-KEY-COLUMN" in codes
    assert len(codes) >= 2, "the table's and the files'"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py", "in", "out"]


@pytest.mark.parametrize(
    ("text", "told"),
    [("x = (", "SyntaxError"), ("print(1)", "without starting a job"), ("raise SystemExit(7)", "ended with 7")],
)
def test_a_program_that_starts_no_job_is_said(tmp_path: Path, text: str, told: str) -> None:
    code, found = check(app(tmp_path, text), "--dir", str(tmp_path))
    assert code == Exit.FAILED
    assert told in of_app(found)[0]["detail"]
