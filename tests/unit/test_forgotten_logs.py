"""The ingest logs of a job off a disk that is forgotten: its lines go, and those of the next job stay."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import msgspec
import pytest

from tests.simulation.openers_memory import in_memory
from tidegate.checkpoints import retention
from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_standing import name_of_log, prepared_logs
from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.checkpoints.succession import begin_job, end_preparation, open_next, reserve
from tidegate.core.records import JobRecord
from tidegate.savepoints import ingest_restore_elsewhere
from tidegate.savepoints.ingest_join import fresh_log
from tidegate.savepoints.ingest_restore_elsewhere import prepare_logs_elsewhere, settle_logs_elsewhere
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage
from tidegate.testing.memory_storage import Memory

FOLDER = Folder.of("s3://bucket/job")
FIRST = JobRecord(name="job", job_id="0f1e2d3c", generation=1)
NEXT = JobRecord(name="job", job_id="4b5a6978", generation=2)


@pytest.fixture(autouse=True)
def first() -> Generator[None]:
    with in_memory(Memory()):
        begin_job(FOLDER, FIRST)
        opened().append([b"of the first job"])
        yield


def test_the_next_job_of_the_name_reads_no_line_of_a_job_that_was_forgotten() -> None:
    older = opened().end
    forget()
    begin_job(FOLDER, NEXT)
    log = opened()
    assert (log.begin, log.end.line, log.end.log != older.log) == (log.end, 0, True)
    assert open_storage(FOLDER / INGEST / "lines").below(older.log).list("") == []


def test_a_forget_that_is_cut_off_is_completed_and_the_log_stays_the_next_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr(retention, "drain_name", interrupted)
        with pytest.raises(KeyboardInterrupt):
            forget()
    forget()
    begin_job(FOLDER, NEXT)
    opened().append([b"of the next job"])
    forget()
    assert opened().end.line == 1


def test_a_forget_that_was_paused_removes_no_line_of_the_next_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has looked at the log; before it goes on, another forget ends, and the next job begins."""

    def paused(storage: Storage) -> str | None:
        name = name_of_log(storage)
        monkeypatch.setattr(retention, "name_of_log", name_of_log)
        forget()
        begin_job(FOLDER, NEXT)
        opened().append([b"of the next job"])
        return name

    monkeypatch.setattr(retention, "name_of_log", paused)
    forget()
    assert opened().end.line == 1


def test_a_restore_that_was_paused_lets_no_log_of_a_forgotten_job_count_in_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its generation counts, and it has not named its log yet; before it does, the job is forgotten."""
    restored, following = msgspec.structs.replace(FIRST, generation=2), msgspec.structs.replace(NEXT, generation=3)
    reserve(FOLDER, FIRST, restored)
    prepare_logs_elsewhere(FOLDER, 2, [replace(fresh_log("lines"), replaced={"lines": opened().end.offset})])
    end_preparation(FOLDER, restored, [])
    open_next(FOLDER, FIRST, restored)

    def paused(storage: Storage) -> dict[int, str]:
        found = prepared_logs(storage)
        monkeypatch.setattr(ingest_restore_elsewhere, "prepared_logs", prepared_logs)
        forget()
        begin_job(FOLDER, following)
        opened().append([b"of the next job"])
        return found

    monkeypatch.setattr(ingest_restore_elsewhere, "prepared_logs", paused)
    settle_logs_elsewhere(FOLDER, 2)
    assert opened().end.line == 1


def forget() -> None:
    delete_checkpoints(FOLDER, FIRST.job_id, lambda _job_id: None)


def opened() -> PieceLog:
    return PieceLog(FOLDER / INGEST / "lines")


def interrupted(*_: object) -> str:
    raise KeyboardInterrupt
