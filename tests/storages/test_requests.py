"""The requests of an epoch, and of an idle job, beside those of Spark: counted, on real servers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server

PROGRAM = Path(__file__).with_name("counted_program.py")
EPOCHS = 46
IDLE_SECONDS = 60
IDLE_AT_MOST = 30
OF_AN_EPOCH_AT_MOST = 12
OF_AN_APPEND = 2.2
"""A put, a look at the owner, and now and then the same for a trim."""
OF_THE_SOURCE = 1
"""The source puts the list of the files of an epoch."""


@pytest.mark.more
@pytest.mark.timeout(400)
def test_few_requests_on_hdfs(hdfs: HdfsServer, tmp_path: Path) -> None:
    costs_few(counted(tmp_path, f"{hdfs.uri}/{tmp_path.name}/checkpoints"))


@pytest.mark.more
@pytest.mark.timeout(400)
def test_few_requests_on_s3(s3: S3Server, tmp_path: Path) -> None:
    costs_few(counted(tmp_path, str(s3.folder())))


@pytest.mark.more
@pytest.mark.timeout(400)
def test_few_requests_with_an_ingest_log_in_a_bucket(s3: S3Server, tmp_path: Path) -> None:
    found = counted(tmp_path, str(s3.folder()), "log")
    costs_few(found)
    of_the_log = {what: count for what, count in found["of_an_epoch"].items() if what.split()[1].startswith("/ingest/")}
    assert sum(of_the_log.values()) <= OF_AN_APPEND, of_the_log
    assert not [what for what in of_the_log if what.startswith("list")]
    assert not [what for what in found["idle"] if "/ingest/" in what]


def costs_few(found: dict[str, dict[str, int]]) -> None:
    table = json.dumps(found, indent=1)
    print(table)
    of_an_epoch = {
        what: count for what, count in found["of_an_epoch"].items() if what.split()[1].startswith("/queries/")
    }
    assert sum(of_an_epoch.values()) <= OF_AN_EPOCH_AT_MOST + OF_THE_SOURCE, table
    assert sum(found["idle"].values()) <= IDLE_AT_MOST, table


def counted(folder: Path, checkpoints: str, source: str = "files") -> dict[str, dict[str, int]]:
    """By kind and name: the requests of an epoch, and of an idle minute."""
    (folder / "in").mkdir()
    for number in range(EPOCHS):
        file = folder / "in" / f"{number}.txt"
        file.write_text("sea\nbay\nsea\n")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    arguments = (str(folder), checkpoints, str(EPOCHS), str(IDLE_SECONDS), source)
    with Driver(PROGRAM, *arguments, log=folder / "log") as driver:
        assert driver.wait() == 0, driver.tail()
        return json.loads(driver.tail(100_000).splitlines()[-1])
