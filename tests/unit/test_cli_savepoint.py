"""The command for savepoints that are there already."""

from __future__ import annotations

import json
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


def test_a_first_word_that_is_no_command_is_a_job(tmp_path: Path):
    assert tidegate("savepoint", "nobody", "--dir", str(tmp_path))[0] == 3
    assert tidegate("savepoint", "take", "nobody", "--dir", str(tmp_path))[0] == 3
