"""The command for savepoints that are there already."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.jobs.folders import tidegate
from tests.support.saved_job import write_job
from tidegate.checkpoints.savepoint_take import take


def test_savepoints_are_listed_shown_proven_and_removed(tmp_path: Path):
    saved = take(write_job(tmp_path / "job"), "one", tmp_path / "saved").folder
    code, text = tidegate("savepoint", "ls", str(tmp_path / "saved"), "--json")
    (listed,) = json.loads(text)["savepoints"]
    assert (code, listed["path"], listed["job"], listed["epochs"]) == (0, str(saved), "job", {"query": 3})
    code, text = tidegate("savepoint", "inspect", str(saved), "--json")
    (query,) = json.loads(text)["queries"]
    assert (code, query["sources"], query["watermark_ms"]) == (0, {"in": '{"logOffset":3}'}, 3000)
    assert (query["sinks"], query["operators"]) == ({"out": 3}, ["0: stateStoreSave (default)"])
    assert "stateStoreSave" in tidegate("savepoint", "inspect", str(saved))[1]
    assert saved.name in tidegate("savepoint", "ls", str(tmp_path / "saved"))[1]
    code, text = tidegate("savepoint", "verify", str(saved))
    assert (code, "OK" in text) == (0, True)

    state = saved / "queries/query/spark/state/0/0/4.delta"
    state.write_text("STATE 4")
    code, text = tidegate("savepoint", "verify", str(saved), "--json")
    assert (code, [each["code"] for each in json.loads(text)["problems"]]) == (1, ["TG-SAVEPOINT-ALTERED"])

    assert tidegate("savepoint", "dispose", str(saved.parent))[0] == 4
    assert tidegate("savepoint", "dispose", str(saved))[0] == 0
    assert list(saved.parent.iterdir()) == []
    code, text = tidegate("savepoint", "verify", str(saved), "--json")
    assert (code, [each["code"] for each in json.loads(text)["problems"]]) == (1, ["TG-SAVEPOINT-INCOMPLETE"])


def test_a_savepoint_goes_through_a_file_or_a_pipe_and_what_differs_is_shown(tmp_path: Path):
    job = write_job(tmp_path / "job")
    saved, other = (take(job, name, tmp_path / "saved").folder for name in ("one", "two"))
    code, text = tidegate("savepoint", "diff", str(saved), str(other), "--json")
    assert (code, [each["what"] for each in json.loads(text)["differences"]]) == (0, ["id", "at"])
    assert "no difference" in tidegate("savepoint", "diff", str(saved), str(saved))[1]

    archive = tmp_path / "one.tar"
    code, text = tidegate("savepoint", "export", str(saved), str(archive), "--json")
    assert (code, json.loads(text)["bytes"]) == (0, archive.stat().st_size)
    assert tidegate("savepoint", "export", str(saved), str(archive))[0] == 4
    code, text = tidegate("savepoint", "import", str(archive), str(tmp_path / "there"), "--json")
    assert (code, json.loads(text)["path"]) == (0, str(tmp_path / "there" / saved.name))
    assert "no difference" in tidegate("savepoint", "diff", str(saved), str(tmp_path / "there" / saved.name))[1]
    assert tidegate("savepoint", "export", str(saved), "-", "--json")[0] == 2
    assert tidegate("savepoint", "import", str(tmp_path / "nothing"), str(tmp_path / "there"))[0] == 2

    command = [sys.executable, "-m", "tidegate.cli.main", "savepoint"]
    out = subprocess.run([*command, "export", str(saved), "-"], capture_output=True, check=True).stdout
    assert out == archive.read_bytes()
    subprocess.run([*command, "import", "-", str(tmp_path / "piped")], input=out, capture_output=True, check=True)
    assert tidegate("savepoint", "verify", str(tmp_path / "piped" / saved.name))[0] == 0


def test_a_first_word_that_is_no_command_is_a_job(tmp_path: Path):
    assert tidegate("savepoint", "nobody", "--dir", str(tmp_path))[0] == 3
    assert tidegate("savepoint", "take", "nobody", "--dir", str(tmp_path))[0] == 3
