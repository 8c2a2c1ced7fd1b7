"""A job with channels is killed while it takes checkpoints: it resumes, and each checkpoint can be restored."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.integration.place import wait_until
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tests.support.today import turn
from tidegate.checkpoints.job_layout import CHECKPOINTS, HELD_FILES, retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("channel_checkpoints_program.py")


@turn(0, of=3)
@pytest.mark.timeout(400)
def test_a_killed_job_resumes_and_another_one_goes_back_to_its_checkpoint(tmp_path: Path) -> None:
    is_exact_from_a_checkpoint(tmp_path, str(tmp_path / "checkpoints"))


@turn(1, of=3)
@pytest.mark.timeout(400)
def test_on_hdfs_a_killed_job_resumes_and_another_one_goes_back_to_its_checkpoint(
    hdfs: HdfsServer, tmp_path: Path
) -> None:
    is_exact_from_a_checkpoint(tmp_path, f"{hdfs.uri}/{tmp_path.name}")


@turn(2, of=3)
@pytest.mark.timeout(400)
def test_on_s3_a_killed_job_resumes_and_another_one_goes_back_to_its_checkpoint(s3: S3Server, tmp_path: Path) -> None:
    is_exact_from_a_checkpoint(tmp_path, str(s3.folder()))


def is_exact_from_a_checkpoint(folder: Path, checkpoints: str) -> None:
    (folder / "in").mkdir()
    job = Folder.of(checkpoints) / "words"
    with Driver(PROGRAM, str(folder), checkpoints, "words", "forever", log=folder / "log") as driver:
        for count in range(1, 4):  # files come until the checkpoint of each is there
            write_input(folder, count)
            wait_until(partial(has_checkpoint, job, count), f"checkpoint {count}")
        write_input(folder, 4)
        os.kill(driver.process.pid, signal.SIGKILL)
    ran(folder, checkpoints, "words", "caught-up")
    is_exact(folder, "words")
    numbers = retained_numbers(job)
    older = job / CHECKPOINTS / str(numbers[0])
    write_input(folder, 5)
    ran(folder, checkpoints, "copy", "caught-up", str(older))
    is_exact(folder, "copy")
    nothing_is_left(job)


def has_checkpoint(job: Folder, number: int) -> bool:
    return max(retained_numbers(job), default=0) >= number


def ran(folder: Path, *arguments: str) -> None:
    with Driver(PROGRAM, str(folder), *arguments, log=folder / "log") as driver:
        assert driver.wait() == 0, driver.tail()


def write_input(folder: Path, number: int) -> None:
    hidden = folder / f"{number}.txt"
    hidden.write_text("".join(f"word {number * each % 5}\n" for each in range(6)))
    hidden.rename(folder / "in" / hidden.name)


def is_exact(folder: Path, name: str) -> None:
    written = Counter(line for file in (folder / "in").glob("*.txt") for line in file.read_text().splitlines())
    with closing(sqlite3.connect(folder / f"{name}.db")) as reader:
        rows = dict(reader.execute("SELECT value, count FROM counts").fetchall())
    assert {word: count for word, count in rows.items() if count != written[word]} == {}
    assert rows, "the words of the last file at least"


def nothing_is_left(job: Folder) -> None:
    """What is held is what the manifests name."""
    records = [record for number in retained_numbers(job) if (record := read_retained(job, number)) is not None]
    named = {
        f"{record.held_in}/{query}/{name}"
        for record in records
        for query, names in record.held.items()
        for name in names
    }
    held = open_checkpoint_files(job / CHECKPOINTS / HELD_FILES)
    assert ({each.name for each in held.list()}, held.unfinished()) == (named, [])
