"""`tidegate txn` beside a real job: while it runs, when it has ended with a decided epoch, and at its next start."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.support.command import tidegate
from tests.support.today import turn
from tidegate import FileSink, FunctionSink, Job, SQLiteSink
from tidegate.cli.exits import Exit
from tidegate.operate.sinks import SINKS


def words_job(place: Place) -> Job:
    job = place.job()
    table = SQLiteSink("table", place.folder / "out.db", table="words")
    job.query("query", place.words(job), sinks=[table, FileSink("files", place.folder / "out", format="json")])
    return job


def txn(place: Place, *arguments: str) -> tuple[int, Any]:
    """The command: its exit code and what it printed as JSON, or its error."""
    done = tidegate("txn", *arguments, "--json", "--dir", str(place.checkpoints))
    return done.code, json.loads(done.stdout) if done.stdout else done.stderr


def from_another_terminal(place: Place, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tidegate.cli.main", "txn", *arguments, "--dir", str(place.checkpoints)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@turn(0, of=2)
def test_a_decided_epoch_that_its_sink_did_not_take_is_committed_from_outside_and_not_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tidegate.sinks.sqlite.disk.BUSY_TIMEOUT_SECONDS", 0.1)
    place.write("sea")
    handle = words_job(place).start()
    wait_until_finished(handle, 0)
    with closing(sqlite3.connect(place.folder / "out.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        place.write("sand")
        wait_until(lambda: place.log("ledger/decided") == [0, 1], "epoch 1 decided")

        code, found = txn(place, "ls", "job")
        assert (code, {each["verdict"] for each in found["transactions"]}) == (Exit.OK, {"in use"})
        name = next(each["name"] for each in found["transactions"] if each["sink"] == "table")
        code, said = from_another_terminal(place, "commit", "job", name, "--force", name)
        assert code == Exit.REFUSED
        assert "TG-DRIVER-ALIVE" in said

        assert error_of(lambda: handle.stop(timeout_seconds=0.5)).code == "TG-SINK-UNAVAILABLE"
        code, found = txn(place, "ls")
        assert {(each["sink"], each["epoch"], each["verdict"]) for each in found["transactions"]} == {
            ("table", 1, "commit"),
            ("files", 1, "commit"),
        }
        code, said = txn(place, "abort", "job", name)
        assert code == Exit.REFUSED
        assert "TG-TRANSACTION-KEPT" in said
        code, found = txn(place, "commit", "job", name, "--wait", "0.1")
        assert (code, found["outcome"]) == (Exit.FAILED, "not-committed")
    assert place.table() == [("sea",)]

    code, found = txn(place, "commit", "job", name)
    assert (code, found["outcome"], found["epochs"]) == (Exit.OK, "committed", [1])
    assert place.table() == [("sand",), ("sea",)]
    assert place.words_out() == {0: ["sea"], 1: ["sand"]}
    assert txn(place, "commit", "job", name)[1]["outcome"] == "already"
    assert txn(place, "ls", "job") == (Exit.OK, {"transactions": [], "problems": []})

    place.write("wind")
    run(words_job(place))
    assert place.table() == [("sand",), ("sea",), ("wind",)]
    assert place.words_out() == {0: ["sea"], 1: ["sand"], 2: ["wind"]}
    assert place.log("ledger/done") == [0, 1, 2]


def test_a_start_describes_its_sinks_anew_and_what_only_the_program_can_open(place: Place):
    job = place.job()
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("query", place.words(job), sinks=[table, FunctionSink("mine", lambda rows, epoch: None)])
    place.write("sea")
    run(job)
    described = json.loads((place.checkpoints / "job" / SINKS).read_text())
    assert described["format"] == 1
    assert [(each["query"], each["uid"], each["target"]["type"]) for each in described["sinks"]] == [
        ("query", "table", "sqlite"),
        ("query", "mine", "other"),
    ]
    assert described["sinks"][0]["target"]["key"] == ["word"]


@pytest.mark.parametrize(
    ("name", "code", "told"),
    [
        ("nobody", Exit.UNKNOWN_JOB, "TG-JOB-UNKNOWN"),
        *((name, Exit.USAGE, "TG-UID-INVALID") for name in ("../job", "job\0", "x" * 10_000, "")),
    ],
)
def test_a_job_that_is_not_there_has_its_own_exit_code_and_no_path_leaves_the_folder(
    tmp_path: Path, name: str, code: Exit, told: str
):
    (tmp_path / "job.json").write_text("{}")
    (tmp_path / "checkpoints").mkdir()
    for arguments in (["txn", "commit", name, "x"], ["txn", "abort", name, "x"]):
        done = tidegate(*arguments, "--dir", str(tmp_path / "checkpoints"))
        assert done.code == code, done
        assert told in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "job.json"]
