"""A supervised job whose program does not fit the state in its checkpoint: refused once, and not started again."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.jobs.under_run import UnderRun, wait_until
from tests.support.today import turn
from tidegate.operate.failures import Failure, read_failures

PROGRAM = Path(__file__).with_name("refusals_program.py")
QUICKLY = ["-D", "restart.exponential.initial=100ms", "-D", "restart.exponential.attempts=3"]


@turn(1, of=4)
def test_neither_another_aggregate_nor_state_that_is_gone_is_started_again(tmp_path: Path):
    (tmp_path / "numbers").mkdir()
    add(tmp_path, 1)
    with supervised(tmp_path) as run:
        wait_until(lambda: sums(tmp_path), "the first sums", run)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0, run.tail()
    add(tmp_path, 2)

    with supervised(tmp_path, "--means") as run:
        assert run.wait() == 4, run.tail()
    (failure,) = failures(tmp_path)
    assert (failure.code, failure.restart_in_seconds) == ("TG-OPERATOR-CHANGED", None), run.tail()

    for path in tmp_path.glob(".tidegate/sums/queries/totals/g1/spark/state/0/?/*.changelog"):
        path.unlink()
    with supervised(tmp_path) as run:
        assert run.wait() == 4, run.tail()
    newest = failures(tmp_path)[0]
    assert (newest.code, newest.query, newest.restart_in_seconds) == ("TG-STATE-DAMAGED", "totals", None), run.tail()
    assert "/spark/state/0/" in newest.where
    assert len(failures(tmp_path)) == 2


@contextmanager
def supervised(folder: Path, *arguments: str) -> Iterator[UnderRun]:
    with UnderRun(folder, *arguments, program=PROGRAM, options=QUICKLY, is_told_its_folder=False) as run:
        yield run


def failures(folder: Path) -> list[Failure]:
    return read_failures(folder / ".tidegate" / "sums")


def add(folder: Path, number: int) -> None:
    hidden = folder / "numbers" / f".{number}"
    hidden.write_text("".join(json.dumps({"n": n}) + "\n" for n in range(10)))
    hidden.rename(folder / "numbers" / f"{number}.json")


def sums(folder: Path) -> list[tuple[object, ...]]:
    if not (folder / "sums.db").exists():
        return []
    with closing(sqlite3.connect(folder / "sums.db")) as database, suppress(sqlite3.OperationalError):  # no table yet
        return database.execute("SELECT * FROM sums").fetchall()
    return []
