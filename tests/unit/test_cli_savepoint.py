"""The command for savepoints that are there already."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.jobs.folders import tidegate
from tests.support.saved_job import OPERATOR, write_job
from tidegate.cli.savepoint_view import watermark_text
from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.records import SavedFile, StatefulOperator, encode
from tidegate.operate import position_lines
from tidegate.operate.saved_views import details_of
from tidegate.savepoints.folder import MANIFEST, Savepoint, open_savepoint
from tidegate.savepoints.take import take

STATE_BYTES = len(OPERATOR) + 4 * len("state 1")
"""Of the one operator of a job that was written by hand."""


def test_savepoints_are_listed_shown_proven_and_removed(tmp_path: Path):
    saved = take(write_job(tmp_path / "job"), "one", tmp_path / "saved").folder
    code, text = tidegate("savepoint", "ls", str(tmp_path / "saved"), "--json")
    (listed,) = json.loads(text)["savepoints"]
    assert (code, listed["path"], listed["job"], listed["epochs"]) == (0, str(saved), "job", {"query": 3})
    code, text = tidegate("savepoint", "inspect", str(saved), "--json")
    (query,) = json.loads(text)["queries"]
    assert (code, query["sources"], query["watermark_ms"]) == (0, {"in": '{"logOffset":3}'}, 3000)
    state = {
        "name": "stateStoreSave",
        "uid": None,
        "stores": ["default"],
        "partitions": 1,
        "computes": {"aggregate functions": "sum(v)"},
        "state_rows": 13,
        "state_bytes": STATE_BYTES,
    }
    assert (query["sinks"], query["operators"]) == ({"out": 3}, {"0": state})
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


def test_a_savepoint_is_shown_to_people(tmp_path: Path):
    saved = take(write_job(tmp_path / "job"), "one", tmp_path / "saved").folder
    code, text = tidegate("savepoint", "inspect", str(saved))
    assert code == 0
    about, query, state = (part.splitlines() for part in text.split("\n\n"))
    assert about[:3] == [f"path: {saved}", "id: one", "format: native"]
    assert query[:-1] == [
        "query query",
        "  epoch: 3",
        "  source in: entry 3 of the log of its files",
        "  watermark: 1970-01-01T00:00:03.000+00:00",
        "  sink out: newest rows of epoch 3",
        "  backend: hashmap",
        "  partitions: 1",
        f"  state_bytes: {STATE_BYTES}",
    ]
    assert query[-1].startswith("  fingerprint: ")
    assert state.pop() == "operator 0 computes: aggregate functions: sum(v)"
    assert [line.split() for line in state] == [
        ["operator", "name", "stores", "partitions", "rows", "bytes"],
        [*state[1].split()],
        ["0", "stateStoreSave", "default", "1", "13", str(STATE_BYTES)],
    ]


def test_what_an_older_release_has_not_counted_is_a_dash(tmp_path: Path):
    saved = take(write_job(tmp_path / "job"), "one", tmp_path / "saved").folder
    found = open_savepoint(saved)
    (query,) = found.record.queries
    older = msgspec.structs.replace(query, done=msgspec.structs.replace(query.done, state_rows={}, fingerprints=None))
    (saved / MANIFEST).write_bytes(encode(msgspec.structs.replace(found.record, queries=(older,))))
    (shown,) = json.loads(tidegate("savepoint", "inspect", str(saved), "--json")[1])["queries"]
    assert shown["operators"]["0"]["state_rows"] is None
    assert tidegate("savepoint", "inspect", str(saved))[1].splitlines()[-1].split()[-2:] == ["-", str(STATE_BYTES)]


def test_each_operator_has_the_bytes_of_its_own_files(tmp_path: Path):
    found = open_savepoint(take(write_job(tmp_path / "job"), "one", tmp_path / "saved").folder)
    (query,) = found.record.queries
    operators = tuple(
        StatefulOperator(number=number, name="dedupe", stores=("default",), partitions=1) for number in (1, 10)
    )
    sizes = {"spark/state/1/0/4.delta": 3, "spark/state/10/0/4.delta": 40, "state/1/default/a.parquet": 500}
    files = [SavedFile(name=f"queries/query/{name}", size_bytes=size, sha256="") for name, size in sizes.items()]
    two = msgspec.structs.replace(query, operators=operators)
    record = msgspec.structs.replace(found.record, queries=(two,), files=tuple(files))
    (shown,) = details_of(Savepoint(found.folder, record, found.digest)).queries
    assert {number: each.state_bytes for number, each in shown.operators.items()} == {"1": 503, "10": 40}
    assert shown.state_bytes == 543


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        (None, ["nothing read yet"]),
        ('{"logOffset":7}', ["entry 7 of the log of its files"]),
        (
            '{"sea":{"10":3,"9":0},"sand":{"0":5},"topic ids":{"sea":"Zx"},"skipped records":{"sea":{"9":{"to":4}}}}',
            ["topic sea: partition 9 at 0, partition 10 at 3", "topic sand: partition 0 at 5"],
        ),
        ("42", ["42"]),
        ("no JSON", ["no JSON"]),
        ('{"at":{"place":3},"by":4}', ['{"at":{"place":3},"by":4}']),
        ("{}", ["{}"]),
    ],
)
def test_where_a_source_ends_can_be_read(end: str | None, lines: list[str]):
    assert position_lines(end) == lines


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "none yet"),
        (1_767_323_045_678, "2026-01-02T03:04:05.678+00:00"),
        (END_OF_TIME_MS, "the end of time"),
    ],
)
def test_a_watermark_is_a_time(milliseconds: int, text: str):
    assert watermark_text(milliseconds) == text


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
    (tmp_path / "cut.tar").write_bytes(archive.read_bytes()[:3000])
    code, text = tidegate("savepoint", "import", str(tmp_path / "cut.tar"), str(tmp_path / "elsewhere"))
    assert (code, f"where:    {tmp_path / 'cut.tar'}" in text) == (4, True), text

    command = [sys.executable, "-m", "tidegate.cli.main", "savepoint"]
    out = subprocess.run([*command, "export", str(saved), "-"], capture_output=True, check=True).stdout
    assert out == archive.read_bytes()
    subprocess.run([*command, "import", "-", str(tmp_path / "piped")], input=out, capture_output=True, check=True)
    assert tidegate("savepoint", "verify", str(tmp_path / "piped" / saved.name))[0] == 0


def test_a_first_word_that_is_no_command_is_a_job(tmp_path: Path):
    assert tidegate("savepoint", "nobody", "--dir", str(tmp_path))[0] == 3
    assert tidegate("savepoint", "take", "nobody", "--dir", str(tmp_path))[0] == 3


def test_a_path_that_is_no_savepoint_is_told_for_what_it_is(tmp_path: Path):
    (tmp_path / "file").touch()
    for path, found in ((tmp_path / "nowhere", "no such folder"), (tmp_path / "file", "a file"), (tmp_path, "without")):
        code, text = tidegate("savepoint", "inspect", str(path))
        assert (code, found in text, "savepoint ls DIR" in text) == (4, True, True), text


def test_of_many_files_that_are_missing_ten_are_shown_and_the_others_counted(tmp_path: Path):
    saved = take(write_job(tmp_path / "job"), "one", tmp_path / "saved").folder
    files = len(open_savepoint(saved).record.files)
    shutil.rmtree(saved / "queries")
    code, text = tidegate("savepoint", "verify", str(saved))
    assert (code, text.count("expected: a file of"), f"and {files - 10} more" in text) == (1, 10, True)
    code, text = tidegate("savepoint", "verify", str(saved), "--json")
    assert (code, len(json.loads(text)["problems"])) == (1, files)


def test_where_no_savepoint_is_listed_it_is_said_why(tmp_path: Path):
    saved = take(write_job(tmp_path / "job"), "one", tmp_path / "saved").folder
    for folder, said in ((tmp_path / "svaed", "no folder"), (tmp_path, "no savepoint in"), (saved, "which is one")):
        code, text = tidegate("savepoint", "ls", str(folder))
        assert (code, said in text, "taken at" in text) == (0, True, False), text
        code, text = tidegate("savepoint", "ls", str(folder), "--json")
        assert (code, json.loads(text)) == (0, {"savepoints": [], "problems": []})
