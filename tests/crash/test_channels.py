"""A job of two queries that are joined by a channel: killed at the steps that matter, no row is lost or repeated."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tests.support.today import sampled, turn

PROGRAM = Path(__file__).with_name("channel_program.py")
FILES = 4
KILLED_AT = (
    *("task.prepared", "prepared.after", "decision.after", "commit.before", "commit.after", "done.before"),
    *("finished.after", "gc.clean.before"),
)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", sampled([pytest.param(each, id=each) for each in KILLED_AT], count=2))
def test_a_chain_of_two_queries_is_exact_when_its_driver_is_killed(tmp_path: Path, point: str) -> None:
    is_exact_after(tmp_path, str(tmp_path / "checkpoints"), point)


@turn(0, of=2)
@pytest.mark.timeout(400)
def test_a_chain_with_its_channel_on_hdfs_is_exact_when_its_driver_is_killed(hdfs: HdfsServer, tmp_path: Path) -> None:
    is_exact_after(tmp_path, f"{hdfs.uri}/{tmp_path.name}", "commit.after")


@turn(1, of=2)
@pytest.mark.timeout(400)
def test_a_chain_with_its_channel_on_s3_is_exact_when_its_driver_is_killed(s3: S3Server, tmp_path: Path) -> None:
    is_exact_after(tmp_path, str(s3.folder()), "commit.before")


def is_exact_after(folder: Path, checkpoints: str, point: str) -> None:
    """The writer is killed in its second epoch, then the reader in its first one; then all is caught up."""
    (folder / "in").mkdir()
    for number in range(FILES):
        (folder / "in" / f"{number}.txt").write_text("".join(f"word {number * each % 5}\n" for each in range(6)))
    for failpoint in (f"{point}@1=crash", f"{point}@0=crash", ""):
        with Driver(PROGRAM, str(folder), checkpoints, log=folder / "log", failpoints=failpoint) as driver:
            code = driver.wait()
    assert code == 0, driver.tail()
    files = (folder / "drawn").glob("*.json")
    published = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    seen, total = Counter[str](), Counter[str]()
    for row in published:
        seen[row["word"]] += 1
        total[row["word"]] += row["drawn"]
    assert sum(seen.values()) == FILES * 6
    with closing(sqlite3.connect(folder / "out.db")) as reader:
        rows = reader.execute("SELECT word, seen, total FROM sums").fetchall()
    assert {word: (count, number) for word, count, number in rows} == {word: (seen[word], total[word]) for word in seen}
