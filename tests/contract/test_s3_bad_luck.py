"""The contracts of a bucket of S3 while half of its requests fail, each time in another way. Nothing is left behind."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from tests.contract.test_leases import OfTerms
from tests.support.http_faults import Fate, HttpFaults, half
from tests.support.s3 import S3Endpoint, S3Server, set_environment
from tests.support.s3_suites import (
    FilesOfACheckpointInABucket,
    RecordsInABucket,
    RowsInABucket,
    TargetFilesInABucket,
    open_uploads,
)
from tests.support.today import sampled, today, turn
from tidegate.core.errors import TidegateError
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.journals import open_journal
from tidegate.storages.leases import open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.renewal import renewing
from tidegate.storages.s3 import bucket as requests
from tidegate.storages.s3 import connection, copies, uploads
from tidegate.storages.schemes import Where

LUCK = {
    "an error": half(today(), Fate.ERROR, Fate.FAIL_AFTER),
    "busy": half(today(), Fate.SLOW_DOWN),
    "silent": half(today(), *[Fate.PASS] * 5, Fate.SILENCE),  # each costs its client all the time that it waits
    "lost": half(today(), Fate.LOSE_REQUEST, Fate.LOSE_ANSWER),
}
"""What becomes of half of the requests."""


SLOW = "silent"


@pytest.fixture(
    params=[
        *sampled([pytest.param(each, id=each.replace(" ", "-")) for each in LUCK if each != SLOW]),
        pytest.param(SLOW, marks=pytest.mark.more),
    ]
)
def faults(s3: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[HttpFaults]:
    with short_waits(s3, monkeypatch, 5.0 if request.param == SLOW else connection.ANSWER_SECONDS) as faults:
        # One copy in four is not made and answered by an error: three in a row are no rare case.
        monkeypatch.setattr(copies, "AT_MOST", 10)
        faults.each(LUCK[request.param])
        yield faults


SHORT_WAITS = """
from tidegate.storages.s3 import bucket, connection
connection.FIRST_PATIENCE_SECONDS = connection.PATIENCE_SECONDS
bucket._FIRST_PAUSE_SECONDS = bucket._THROTTLED_PAUSE_SECONDS = 0.005
bucket._LONGEST_PAUSE_SECONDS = 0.1
"""
"""The same in another process: with the usual pauses, four requests of bad luck use up the first patience."""


@contextmanager
def short_waits(s3: S3Server, monkeypatch: pytest.MonkeyPatch, answer_seconds: float = 2.0) -> Generator[HttpFaults]:
    """The variables lead to the server through the proxy. Pauses are short."""
    monkeypatch.setattr(connection, "ANSWER_SECONDS", answer_seconds)
    monkeypatch.setattr(connection, "FIRST_PATIENCE_SECONDS", connection.PATIENCE_SECONDS)
    for name in ("_FIRST_PAUSE_SECONDS", "_THROTTLED_PAUSE_SECONDS"):
        monkeypatch.setattr(requests, name, 0.005)
    monkeypatch.setattr(requests, "_LONGEST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(copies, "SECONDS", 0.1)
    with HttpFaults(s3.endpoint) as faults, set_environment({**s3.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint}):
        yield faults


@pytest.fixture
def bucket(s3: S3Server, faults: HttpFaults) -> S3Endpoint:
    """The tests themselves reach the server without the proxy."""
    return s3


class TestRecords(RecordsInABucket):
    races = 1
    many = 30


class TestRows(RowsInABucket):
    pass


class TestFilesOfACheckpoint(FilesOfACheckpointInABucket):
    pass


class TestTargetFiles(TargetFilesInABucket):
    races = 1


class TestTerms(OfTerms):
    timeout = "16"
    first = SHORT_WAITS
    races = 2
    patience_seconds = 30.0

    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: S3Endpoint) -> None:
        self.root = bucket.folder()

    def place(self) -> Where:
        return self.root / "job"


@turn(2, of=4)
def test_each_kind_of_request_comes_through_while_half_get_no_answer(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = s3.folder()
    with short_waits(s3, monkeypatch) as faults:
        storage, files = open_storage(root), open_checkpoint_files(root)
        faults.each(half(today(), Fate.SILENCE))
        assert storage.put_if_absent("decided/7", b"seven") is True
        assert storage.put_if_absent("decided/7", b"another") is False
        storage.replace("beat", b"1")
        assert files.hold("decided/7", str(root / "held")) is True
        assert (storage.read("beat"), storage.list("decided"), storage.list("held/decided")) == (b"1", ["7"], ["7"])
        storage.delete_all(["beat", "decided/7"])
        assert storage.look("beat") is None
        assert faults.struck[Fate.SILENCE] > 0


@turn(1, of=2)
def test_a_request_that_gets_no_answer_does_not_use_up_the_patience_with_a_server(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its wait is longer than the patience with one that has never answered."""
    with short_waits(s3, monkeypatch) as faults:
        monkeypatch.setattr(connection, "FIRST_PATIENCE_SECONDS", 0.5)
        fates = iter([Fate.ERROR, Fate.SILENCE, Fate.ERROR])
        faults.each(lambda _: next(fates, Fate.PASS))
        assert open_storage(s3.folder()).list("") == []
        monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.5)
        faults.each(lambda _: Fate.SILENCE)
        with pytest.raises(TidegateError, match="ReadTimeoutError"):
            open_storage(s3.folder()).list("")


@turn(0, of=2)
def test_once_the_patience_with_a_server_is_over_each_request_waits_briefly_until_it_answers_again(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a supervisor that looks again and again hears of the end of its driver, and obeys a signal."""
    with short_waits(s3, monkeypatch) as faults:
        monkeypatch.setattr(connection, "FIRST_PATIENCE_SECONDS", 0.1)
        monkeypatch.setattr(connection, "PATIENCE_SECONDS", 6.0)
        storage = open_storage(s3.folder())
        assert storage.list("") == []
        for shortest, longest in ((5.0, 60.0), (0.0, 3.0)):
            faults.each(lambda _: Fate.LOSE_REQUEST)
            begun = time.monotonic()
            with pytest.raises(TidegateError, match="ConnectionClosed"):
                storage.list("")
            assert shortest < time.monotonic() - begun < longest
        faults.each(lambda _: Fate.PASS)
        assert storage.list("") == []
        fates = iter([Fate.LOSE_REQUEST] * 5)
        faults.each(lambda _: next(fates, Fate.PASS))
        assert storage.list("") == []


@pytest.mark.usefixtures("faults")
def test_large_files_come_through_in_parts_and_leave_none(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", 5 << 20)  # as small as S3 takes them
    root = s3.folder()
    batch = pa.RecordBatch.from_pydict({"noise": [os.urandom(1 << 20) for _ in range(12)]})
    for epoch in range(2):
        writer = open_journal(root).writer(f"{epoch}/rows.arrow")
        writer.write(batch)
        if epoch == 0:
            writer.abort()
        else:
            reference = writer.close()
            assert reference is not None
            assert list(open_journal(root).read(reference)) == [batch]
    open_journal(root).delete_from(1)
    assert (open_journal(root).epochs(), open_uploads(s3, root)) == ([], 0)


@turn(2, of=4)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_lease_is_kept_although_a_request_of_its_renewal_gets_no_answer(s3: S3Server, method: str) -> None:
    """A renewal lists the terms, and puts the beat."""
    kept = s3.folder() / "job"
    with HttpFaults(s3.endpoint) as faults, set_environment({**s3.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint}):
        held = open_lease(kept, 12.0).take("words", 0)
        with renewing(held):
            faults.next(Fate.SILENCE, method)
            for _ in range(20):
                time.sleep(0.5)
                assert held.lost_here() is None
            assert faults.struck[Fate.SILENCE] == 1
        held.release()
