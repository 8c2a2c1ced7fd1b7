"""Jobs on bad days of their storage: half of the requests fail, or it is away for longer than every deadline."""

from __future__ import annotations

import random
import secrets
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.jobs.under_run import UnderRun, wait_until
from tests.storages.test_remote_jobs import PROGRAM, beside, die, is_exact, lines, write_input
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.http_faults import UNANSWERED, Fate, HttpFaults
from tests.support.remote_files import staged
from tests.support.s3 import S3Endpoint, S3Server, set_environment
from tests.support.s3_suites import open_uploads
from tests.support.today import today, turn
from tidegate import operate
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

FILES = 8
SILENT_AT_MOST = 3
"""Requests that get no answer at all: each costs its client half a minute, or a minute."""
SHORT_LEASE, PATIENT_LEASE = "6s", "300s"
QUICKLY = ("-D", "restart.exponential.initial=500ms", "-D", "restart.exponential.max=2s")


@pytest.fixture
def faults(s3: S3Server) -> Iterator[HttpFaults]:
    """Also for the processes that a test starts, and for Spark."""
    with HttpFaults(s3.endpoint) as faults, set_environment({**s3.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint}):
        yield faults


# --- half of the requests fail -------------------------------------------------------------------------------


@pytest.mark.more  # ten minutes of retries
@pytest.mark.timeout(1500)
def test_a_job_is_exact_while_half_of_its_requests_fail(s3: S3Server, faults: HttpFaults, tmp_path: Path) -> None:
    """Those of Python and those of Spark: errors, a busy server, lost requests, lost answers, and some silence.

    Under supervision, and with a lease that bears a renewal of many tries.
    """
    checkpoints = str(s3.folder())
    write_input(checkpoints)
    faults.each(bad_luck(today()))
    with UnderRun(tmp_path, checkpoints, PATIENT_LEASE, program=PROGRAM, options=QUICKLY) as run:
        wait_until(lambda: shown(tmp_path, run), "the first rows", run, 600)
        assert run.wait(800) == 0, run.tail()
    faults.each(lambda _: Fate.PASS)
    print(dict(faults.struck), dict(faults.seen))
    assert all(faults.struck[fate] for fate in (*UNANSWERED, Fate.SILENCE))
    is_exact(tmp_path, checkpoints)
    leaves_nothing(s3, checkpoints)


def bad_luck(seed: int) -> Callable[[str], Fate]:
    chance = random.Random(seed)
    silent = [SILENT_AT_MOST]

    def fate_of(_: str) -> Fate:
        if silent[0] and chance.random() < 0.02:
            silent[0] -= 1
            return Fate.SILENCE
        return chance.choice([Fate.PASS, chance.choice(UNANSWERED)])

    return fate_of


def leaves_nothing(s3: S3Server, checkpoints: str) -> None:
    """No part of an upload, no staged file, nothing temporary of Spark."""
    out, root = Folder.of(beside(checkpoints, "out")), Folder.of(checkpoints)
    assert (staged(out), open_uploads(s3, out), open_uploads(s3, root)) == ([], 0, 0)
    keys = [each.get("Key", "") for each in s3.client().list_objects_v2(Bucket=s3.bucket).get("Contents", [])]
    assert [key for key in keys if ".tmp" in key and key.startswith(root.path[1:])] == []


# --- the storage is away -------------------------------------------------------------------------------------


@turn(7, of=8)
@pytest.mark.timeout(1200)
def test_a_job_goes_on_when_its_s3_was_away_for_longer_than_every_deadline(
    s3: S3Server, faults: HttpFaults, tmp_path: Path
) -> None:
    checkpoints = str(s3.folder())
    goes_on_when_it_is_back(tmp_path, checkpoints, s3_away(faults))
    leaves_nothing(s3, checkpoints)


@turn(5, of=8)
@pytest.mark.timeout(1200)
def test_a_job_goes_on_when_its_hdfs_was_away_for_longer_than_every_deadline(hdfs: HdfsServer, tmp_path: Path) -> None:
    goes_on_when_it_is_back(tmp_path, f"{hdfs.uri}/{tmp_path.name}/checkpoints", hdfs_away(hdfs))


def goes_on_when_it_is_back(folder: Path, checkpoints: str, away: AbstractContextManager[None]) -> None:
    """Under supervision: its driver ends, and so does each new one until the storage is back."""
    write_input(checkpoints, range(FILES))
    with UnderRun(folder, checkpoints, SHORT_LEASE, program=PROGRAM, options=QUICKLY) as run:
        wait_until(lambda: shown(folder, run), "the first rows", run)
        with away:
            wait_until(lambda: told(run, "restart of the driver"), "the end of the driver", run, 240)
            wait_until(lambda: told(run, "TG-STORAGE-UNUSABLE"), "a driver that finds no storage", run, 240)
        assert run.wait(300) == 0, run.tail()
    is_exact(folder, checkpoints, FILES)
    assert staged(Folder.of(beside(checkpoints, "out"))) == []


def shown(folder: Path, run: UnderRun) -> bool:
    run.driver()  # it is ended with the test
    return has_rows(folder)


def has_rows(folder: Path) -> bool:
    try:
        return (folder / "out.db").exists() and bool(lines(folder))
    except sqlite3.OperationalError:  # no table yet
        return False


def told(run: UnderRun, code: str) -> bool:
    return code in run.log.read_text(errors="replace")


@contextmanager
def s3_away(faults: HttpFaults) -> Generator[None]:
    faults.each(lambda _: Fate.LOSE_REQUEST)
    try:
        yield
    finally:
        faults.each(lambda _: Fate.PASS)


@contextmanager
def hdfs_away(hdfs: HdfsServer) -> Generator[None]:
    hdfs.kill_name_node()
    try:
        yield
    finally:
        hdfs.start_name_node()


@turn(1, of=8)
@pytest.mark.timeout(900)
def test_a_driver_whose_s3_is_away_ends_with_a_clear_error_and_the_next_one_goes_on(
    s3: S3Server, faults: HttpFaults, tmp_path: Path
) -> None:
    checkpoints = str(s3.folder())
    write_input(checkpoints, range(FILES))
    arguments = (PROGRAM, str(tmp_path), checkpoints, SHORT_LEASE)
    with Driver(*arguments, log=tmp_path / "ended") as driver:
        while not has_rows(tmp_path):
            assert driver.process.poll() is None, driver.tail()
            time.sleep(0.05)
        with s3_away(faults):
            assert driver.wait(400) == 1, driver.tail()
        last = [line for line in driver.tail().splitlines() if "TidegateError: TG-" in line or line.startswith("TG-")]
        assert "TG-LEASE-LOST" in last[-1], driver.tail()
    with Driver(*arguments, log=tmp_path / "log") as driver:
        assert driver.wait(400) == 0, driver.tail()
    is_exact(tmp_path, checkpoints, FILES)
    leaves_nothing(s3, checkpoints)


# --- buckets and servers of other kinds ----------------------------------------------------------------------


@turn(6, of=8)
@pytest.mark.timeout(400)
def test_a_job_in_a_bucket_with_versions_and_object_lock_is_exact_when_its_driver_is_killed(
    s3: S3Server, tmp_path: Path
) -> None:
    """Each put has a digest, as object lock demands, and a delete leaves a mark: the name is free again."""
    client, bucket = s3.client(), f"lock-{secrets.token_hex(4)}"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    client.put_object_lock_configuration(
        Bucket=bucket,
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule},  # pyright: ignore[reportArgumentType]
    )
    checkpoints = f"s3://{bucket}/jobs"
    write_input(checkpoints)
    die(tmp_path, checkpoints, "decision.before@1")
    with Driver(PROGRAM, str(tmp_path), checkpoints, log=tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail()
    is_exact(tmp_path, checkpoints)
    operate.open(checkpoints, "words").forget()
    kept = client.list_object_versions(Bucket=bucket, Prefix="jobs/words/")
    assert kept.get("DeleteMarkers"), "what is removed stays as an old version"


@turn(2, of=8)
@pytest.mark.timeout(200)
def test_a_job_does_not_start_on_a_server_that_ignores_conditions(moto: S3Endpoint, tmp_path: Path) -> None:
    with (
        HttpFaults(moto.endpoint) as faults,
        set_environment({**moto.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint}),
    ):
        checkpoints = str(moto.folder())
        write_input(checkpoints)
        faults.each(lambda _: Fate.UNCONDITIONAL)
        with Driver(PROGRAM, str(tmp_path), checkpoints, log=tmp_path / "log") as driver:
            assert driver.wait() == 1, driver.tail()
        assert "TG-STORAGE-UNUSABLE" in driver.tail()
        assert "honours conditional puts" in driver.tail()
        assert open_storage(checkpoints).folders("") == []
