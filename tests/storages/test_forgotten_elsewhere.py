"""A job in a bucket that is forgotten leaves what holds off a driver, an opener and a `forget` that were paused."""

from __future__ import annotations

import pytest

from tests.support.s3 import S3Server
from tidegate.checkpoints.job_layout import JOB_RECORD, query_names
from tidegate.checkpoints.retention import delete_checkpoints, is_being_deleted
from tidegate.checkpoints.succession import begin_job, standing
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import DECIDED, START, entry, read_decided
from tidegate.core.records import Decided, JobRecord, Sealed, Start, decode, encode
from tidegate.operate.place import JobPlace
from tidegate.operate.reading import read_only
from tidegate.savepoints.fresh import first_generation
from tidegate.storages.opening import open_storage

RECORD = JobRecord(name="job", job_id="0f1e2d3c", generation=2)
NEXT = JobRecord(name="job", job_id="4b5a6978", generation=3)


def test_only_decisions_and_seals_stay_of_a_job_that_is_forgotten_and_the_next_job_begins_above_them(
    s3: S3Server,
) -> None:
    folder = s3.folder()
    job, ledger = open_storage(folder), open_storage(folder / "queries/query/g2")
    begin_job(folder, RECORD)
    start = Start(job_id=RECORD.job_id, generation=2, first_epoch=0, sources=("in",), sinks=("out",))
    ledger.put_if_absent(START, encode(start))
    ledger.put_if_absent("spark/offsets/0", b"v1")
    decided = Decided(epoch=0, run=1, prepared_digest="", offsets=b"", commits=b"")
    ledger.put_if_absent(entry(DECIDED, 0), encode(decided))
    for _ in range(2):  # killed, and completed
        delete_checkpoints(folder, RECORD.job_id, lambda _job_id: None)
    assert (ledger.list("ledger"), ledger.list(DECIDED), ledger.folders("")) == ([], ["0", "1"], ["ledger"])
    assert decode(Sealed, ledger.read(entry(DECIDED, 1)) or b"", "") == Sealed(epoch=1)
    with pytest.raises(TidegateError) as raised:
        read_only(ledger, read_decided(1))
    assert raised.value.code == "TG-GENERATION-SEALED"
    assert job.read(JOB_RECORD) is None
    assert (query_names(folder), first_generation(folder)) == (["query"], 3)
    assert JobPlace(folder, RECORD).queries() == []


def test_a_forget_that_was_paused_removes_nothing_of_the_next_job(s3: S3Server) -> None:
    folder = s3.folder()
    begin_job(folder, RECORD)
    delete_checkpoints(folder, RECORD.job_id, lambda _job_id: None)
    begin_job(folder, NEXT)
    ledger = open_storage(folder / "queries/query/g3")
    ledger.put_if_absent(START, b"of the next job")
    cleared: list[str] = []
    delete_checkpoints(folder, RECORD.job_id, cleared.append)
    assert (cleared, is_being_deleted(folder), standing(folder)) == ([], False, NEXT)
    assert ledger.read(START) == b"of the next job"


def test_the_next_job_begins_only_when_all_of_the_last_one_is_removed(s3: S3Server) -> None:
    folder = s3.folder()
    begin_job(folder, RECORD)

    def killed(_job_id: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        delete_checkpoints(folder, RECORD.job_id, killed)
    assert (is_being_deleted(folder), standing(folder)) == (True, None)
    with pytest.raises(TidegateError) as raised:
        begin_job(folder, NEXT)
    assert raised.value.code == "TG-GENERATION-SEALED"


def test_job_json_of_a_late_process_decides_nothing(s3: S3Server) -> None:
    folder = s3.folder()
    begin_job(folder, RECORD)
    delete_checkpoints(folder, RECORD.job_id, lambda _job_id: None)
    begin_job(folder, NEXT)
    open_storage(folder).replace(JOB_RECORD, encode(RECORD))
    assert standing(folder) == NEXT
    open_storage(folder).delete(JOB_RECORD)
    assert standing(folder) == NEXT
