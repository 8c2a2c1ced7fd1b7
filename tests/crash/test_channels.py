"""A job of two queries that are joined by a channel: killed at the steps that matter, no row is lost or repeated."""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.channel_windows_program import minutes, tens
from tests.integration.place import wait_until
from tests.jobs.folders import tidegate
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tests.support.today import sampled, turn
from tidegate.checkpoints.drained import is_drained
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("channel_program.py")
WINDOWS = Path(__file__).with_name("channel_windows_program.py")
FILES = 4
KILLED_AT = (
    *("task.prepared", "prepared.after", "decision.after", "commit.before", "commit.after", "done.before"),
    *("finished.after", "gc.clean.before"),
)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", sampled([pytest.param(each, id=each) for each in KILLED_AT], every=2))
def test_a_chain_of_two_queries_is_exact_when_its_driver_is_killed(tmp_path: Path, point: str) -> None:
    is_exact_after(tmp_path, str(tmp_path / "checkpoints"), point)


@turn(0, of=2)
@pytest.mark.timeout(400)
def test_a_chain_with_a_keyed_channel_is_exact_when_its_driver_is_killed(tmp_path: Path) -> None:
    """Each driver has another number of partitions: the last one publishes what was parted by that of the first one."""
    is_exact_after(tmp_path, str(tmp_path / "checkpoints"), "commit.before", partitions=(3, 8, 1))


@turn(0, of=4)
@pytest.mark.timeout(400)
def test_a_chain_with_its_channel_on_hdfs_is_exact_when_its_driver_is_killed(hdfs: HdfsServer, tmp_path: Path) -> None:
    is_exact_after(tmp_path, f"{hdfs.uri}/{tmp_path.name}", "commit.after")


@turn(2, of=4)
@pytest.mark.timeout(400)
def test_a_chain_with_its_channel_on_s3_is_exact_when_its_driver_is_killed(s3: S3Server, tmp_path: Path) -> None:
    is_exact_after(tmp_path, str(s3.folder()), "commit.before")


@turn(3, of=4)
@pytest.mark.timeout(400)
def test_rows_that_wait_in_a_channel_are_read_in_the_generation_that_continues_a_sealed_one(
    s3: S3Server, tmp_path: Path
) -> None:
    """The sealed generation was opened as a fresh one. Its writer is killed before the reader begins; the start that
    would open another fresh one is killed behind the seal.
    """
    checkpoints = str(s3.folder())
    write_input(tmp_path, range(2))
    for arguments, failpoint in (
        (["one"], ""),
        ([], "decision.after@3=crash"),
        (["another"], "restore.recorded=crash"),
        ([], ""),
    ):
        with Driver(
            PROGRAM, str(tmp_path), checkpoints, "0", *arguments, log=tmp_path / "log", failpoints=failpoint
        ) as driver:
            assert driver.wait() == (0 if failpoint == "" else -signal.SIGKILL), driver.tail()
        write_input(tmp_path, range(2, FILES))
    is_exact(tmp_path)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("point", sampled([pytest.param(each, id=each) for each in KILLED_AT[:6]], every=2, on=1))
def test_the_drain_of_a_chain_goes_on_after_each_kill_and_leaves_nothing_in_the_channel(
    tmp_path: Path, point: str
) -> None:
    """Three kills: in the last epoch of the writer, while the reader reads the rest, in its own last epoch."""
    (tmp_path / "in").mkdir()
    times = ["00:00:01", "00:00:02", "00:00:21"]
    (tmp_path / "in/0.json").write_text("".join(json.dumps({"at": f"2024-01-01T{each}Z"}) + "\n" for each in times))
    job, checkpoints = Folder.of(tmp_path / "checkpoints/windows"), str(tmp_path / "checkpoints")
    with Driver(WINDOWS, str(tmp_path), log=tmp_path / "log", failpoints=f"{point}@1=crash") as driver:
        wait_until((job / "queries/tens/g1/ledger/done/0").local().exists, "the first epoch of the writer")
        asking = threading.Thread(target=tidegate, args=("stop", "windows", "--drain", "--dir", checkpoints))
        asking.start()
        assert driver.wait() != 0
        asking.join()
    for failpoint in (f"{point}@0=crash", f"{point}@1=crash", ""):
        assert not is_drained(job)
        with Driver(WINDOWS, str(tmp_path), log=tmp_path / "log", failpoints=failpoint) as driver:
            assert (driver.wait() == 0) is (failpoint == ""), driver.tail()
    assert is_drained(job)
    assert (tens(tmp_path), minutes(tmp_path)) == ([("00:00:00", 2), ("00:00:20", 1)], [("00:00:00", 3)])


def is_exact_after(folder: Path, checkpoints: str, point: str, partitions: tuple[int, int, int] = (0, 0, 0)) -> None:
    """The writer is killed in its second epoch, then the reader in its first one; then all is caught up. `partitions`:
    of the channel of each of these drivers; 0: it has no key.
    """
    write_input(folder, range(FILES))
    first, second, last = partitions
    for failpoint, number in ((f"{point}@1=crash", first), (f"{point}@0=crash", second), ("", last)):
        with Driver(PROGRAM, str(folder), checkpoints, str(number), log=folder / "log", failpoints=failpoint) as driver:
            code = driver.wait()
    assert code == 0, driver.tail()
    is_exact(folder)


def write_input(folder: Path, numbers: range) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for number in numbers:
        path = folder / "in" / f"{number}.txt"
        if not path.exists():
            path.write_text("".join(f"word {number * each % 5}\n" for each in range(6)))


def is_exact(folder: Path) -> None:
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
