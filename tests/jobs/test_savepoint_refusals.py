"""What a restore refuses, and what it says then, in a terminal: `pytest -m more -s` shows it.

A refusal changes neither the savepoint nor the job: what is right goes on from it afterwards, exactly.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.jobs.terminal import Terminal, opened, shows

PROGRAM = Path(__file__).with_name("refusals_program.py")
Rows = list[tuple[str, int]]
FIRST: Rows = [("odd", 1), ("even", 2), ("odd", 4)]
"""The sums of 1, 2 and 3, one number an epoch."""

_PARTS = frozenset({"expected", "found", "where", "next"})
"""What a message says behind its code; a check names the place in its first line."""

pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shutil.copy(PROGRAM, tmp_path / "app.py")
    (tmp_path / "numbers").mkdir()
    with opened(tmp_path, "sums") as terminal:
        yield terminal


def test_another_aggregate_is_refused_and_the_one_that_there_was_goes_on(terminal: Terminal):
    path = saved(terminal)
    refused(terminal, path, "TG-OPERATOR-CHANGED", r"sum\(n\)", program="app.py --means")
    goes_on(terminal, f"-s {path} app.py", [*FIRST, ("odd", 9)])


def test_a_query_under_another_uid_is_refused_with_the_option_that_it_goes_on_by(terminal: Terminal):
    path = saved(terminal)
    refused(terminal, path, "TG-RESTORE-UNMATCHED", "--map totals=sums", program="app.py --uid sums")
    goes_on(terminal, f"-s {path} --map totals=sums app.py --uid sums", [*FIRST, ("odd", 9)])


def test_one_flipped_byte_is_refused_and_another_copy_goes_on(terminal: Terminal):
    path = saved(terminal)
    flipped = "savepoints/flipped"
    shutil.copytree(terminal.folder / path, terminal.folder / flipped)
    folder = terminal.folder / flipped / "queries/totals/spark/state/0/0"
    state = min(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    whole = state.read_bytes()
    state.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    said = state.relative_to(terminal.folder / flipped)
    refused(terminal, flipped, "TG-SAVEPOINT-ALTERED", str(said))
    assert shows(terminal.type(f"tidegate savepoint verify {flipped}"), "TG-SAVEPOINT-ALTERED", code=1)
    goes_on(terminal, f"-s {path} app.py", [*FIRST, ("odd", 9)])


def test_a_savepoint_behind_what_is_visible_is_refused_and_goes_back_where_that_is_said(terminal: Terminal):
    path = saved(terminal)
    goes_on(terminal, "app.py", [*FIRST, ("odd", 9)])
    refused(terminal, path, "TG-SINK-AHEAD", "epoch 2", "epoch 3", "--rewind")
    goes_on(terminal, f"-s {path} --rewind app.py", [*FIRST, ("odd", 9), ("odd", 9), ("odd", 14)])


def test_a_limit_is_refused_other_partitions_with_the_options_that_it_goes_on_by(terminal: Terminal):
    rows = [("odd", 1), ("even", 2), ("odd", 3)]
    path = saved(terminal, "app.py --limit", rows)
    program, form = "app.py --limit --parallelism 3", "-D state.backend=rocksdb -D parallelism=2"
    refused(terminal, path, "TG-RESTORE-PARTITIONS", form, program=program)
    goes_on(terminal, f"-s {path} {form} {program}", [*rows, ("odd", 5)])


def saved(terminal: Terminal, program: str = "app.py", rows: Rows = FIRST) -> str:
    """The savepoint that the job ends with when it has seen 1, 2 and 3."""
    for number in (1, 2, 3):
        write(terminal, number)
    assert shows(terminal.type(f"tidegate run -d {program}"), r"^job sums: process \d+")
    wait_for(terminal, rows)
    assert shows(terminal.type("tidegate stop sums -p savepoints --id right"), "stop-with-savepoint sums: done")
    (path,) = (terminal.folder / "savepoints").iterdir()
    return str(path.relative_to(terminal.folder))


def refused(terminal: Terminal, path: str, code: str, *said: str, program: str = "app.py") -> None:
    """Nobody starts from this savepoint, and both commands say why and what helps, and end alike."""
    before = what_counts(terminal)
    name, *arguments = program.split()
    check = " ".join((f"tidegate savepoint check {name} -s {path}", *(["--", *arguments] if arguments else [])))
    run = f"tidegate run -d -s {path} {program}"
    for line, parts in ((run, _PARTS), (check, _PARTS - {"where"})):
        seen = terminal.type(line)
        assert shows(seen, f"^.*{code}", *parts, *said, code=4)
        assert "Traceback" not in seen[1]
    assert what_counts(terminal) == before
    right = min((terminal.folder / "savepoints").glob("savepoint-*")).name
    assert shows(terminal.type(f"tidegate savepoint verify savepoints/{right}"))


def what_counts(terminal: Terminal) -> dict[Path, bytes]:
    """Every file that the job goes on from, and of its savepoints."""
    job = terminal.folder / ".tidegate/sums"
    folders = (job / "queries", job / "checkpoints", terminal.folder / "savepoints")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in (job / "job.json", *files)}


def goes_on(terminal: Terminal, what: str, rows: Rows) -> None:
    """With one odd number more the table holds exactly these rows, also when the job has ended."""
    write(terminal, 5)
    assert shows(terminal.type(f"tidegate run -d {what}"), r"^job sums: process \d+")
    wait_for(terminal, rows)
    assert shows(terminal.type("tidegate stop sums"), "stop sums: done")
    assert table(terminal) == rows


def write(terminal: Terminal, number: int) -> None:
    """One file more with this number; files are read in the order they were written."""
    folder = terminal.folder / "numbers"
    place = len(list(folder.iterdir()))
    hidden = folder / f".{place}"
    hidden.write_text(json.dumps({"n": number}) + "\n")
    os.utime(hidden, (1_700_000_000 + place, 1_700_000_000 + place))
    hidden.rename(folder / f"{place}.json")


def wait_for(terminal: Terminal, rows: Rows) -> None:
    end = time.monotonic() + 120
    while table(terminal) != rows:
        assert time.monotonic() < end, table(terminal)
        time.sleep(0.1)


def table(terminal: Terminal) -> Rows:
    if not (terminal.folder / "sums.db").exists():
        return []
    with closing(sqlite3.connect(terminal.folder / "sums.db", timeout=30)) as database:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'sums'").fetchone()
        return list(database.execute("SELECT parity, n FROM sums ORDER BY rowid")) if known else []
