"""Giving up a job's checkpoints: what goes, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.openers_memory import in_memory
from tidegate.checkpoints import retention
from tidegate.checkpoints.done_epoch import seal_of
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.checkpoints.retained import RetainedCheckpoints
from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.checkpoints.succession import begin_job
from tidegate.core.records import CheckpointRecord, JobRecord, encode
from tidegate.savepoints.fresh import first_generation
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage
from tidegate.testing.memory_storage import Memory


def test_all_that_a_job_would_go_on_from_goes_and_its_history_stays(tmp_path: Path):
    (tmp_path / "job.json").write_bytes(encode(JobRecord(name="job", job_id="0123abcd", generation=1)))
    for name in ("queries/q/g1", "checkpoints/7", "ingest/lines", "history/failures", "locks"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    forgotten: list[str] = []
    delete_checkpoints(Folder.of(tmp_path), "0123abcd", forgotten.append)
    assert forgotten == ["0123abcd"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history", "locks"]


def test_a_folder_that_was_copied_to_a_bucket_by_hand_is_removed_and_sealed() -> None:
    """No start has taken a number for its generations."""
    folder, record = Folder.of("s3://bucket/job"), JobRecord(name="job", job_id="0123abcd", generation=1)
    with in_memory(Memory()):
        open_storage(folder).replace("job.json", encode(record))
        generation = open_storage(folder / "queries/query/g1")
        for name in ("ledger/start", "spark/offsets/0"):
            generation.replace(name, b"copied")
        begin_job(folder, record)
        delete_checkpoints(folder, record.job_id, lambda _job_id: None)
        assert (generation.list("ledger"), generation.list("spark/offsets")) == ([], [])
        assert seal_of(generation) is not None
        assert first_generation(folder) == 2


def test_a_forget_that_was_paused_removes_no_retained_checkpoint_of_the_next_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has looked at the manifest of a number; before it removes that, another forget ends and the next job begins.
    Its number stays above those of the first job, whoever has removed them.
    """
    with in_memory(Memory()):
        begin_job(JOB, FIRST)
        for number in (6, 7):
            open_storage(JOB).put_if_absent(f"checkpoints/{number}/_metadata.json", encode(checkpoint(FIRST, number)))

        def paused(storage: Storage, number: int, job_id: str) -> None:
            if number == 7:
                monkeypatch.setattr(retention, "_clear_checkpoint", clear)
                with monkeypatch.context() as cut:
                    cut.setattr(retention, "_clear_logs", interrupted)
                    with pytest.raises(KeyboardInterrupt):
                        delete_checkpoints(JOB, FIRST.job_id, lambda _job_id: None)
                delete_checkpoints(JOB, FIRST.job_id, lambda _job_id: None)
                begin_job(JOB, NEXT)
                put_a_checkpoint(NEXT)
                storage.delete(f"checkpoints/{number}/_metadata.json")  # here it goes on

        clear = retention._clear_checkpoint  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(retention, "_clear_checkpoint", paused)
        delete_checkpoints(JOB, FIRST.job_id, lambda _job_id: None)
        assert retained_numbers(JOB) == [8]
        found = read_retained(JOB, 8)
        assert found is not None
        assert found.job_id == NEXT.job_id


def test_a_driver_that_was_paused_and_its_checkpoint_do_not_take_the_place_of_the_next_jobs() -> None:
    with in_memory(Memory()):
        begin_job(JOB, NEXT)
        late = encode(checkpoint(FIRST, 1))
        open_storage(JOB).put_if_absent("checkpoints/1/_metadata.json", late)
        kept = RetainedCheckpoints(JOB, "job", NEXT.job_id, [], retained=1)
        open_storage(JOB).put_if_absent("checkpoints/2/_metadata.json", encode(checkpoint(FIRST, 2)))
        for _ in range(2):
            kept.note_drained()
            kept.write()
        found = {number: read_retained(JOB, number) for number in retained_numbers(JOB)}
        assert {number: each.job_id for number, each in found.items() if each is not None} == {
            2: FIRST.job_id,
            3: NEXT.job_id,
        }


JOB = Folder.of("s3://bucket/job")
FIRST = JobRecord(name="job", job_id="0f1e2d3c", generation=1)
NEXT = JobRecord(name="job", job_id="4b5a6978", generation=2)


def put_a_checkpoint(job: JobRecord) -> None:
    kept = RetainedCheckpoints(JOB, job.name, job.job_id, [], retained=1)
    kept.note_drained()
    kept.write()


def checkpoint(job: JobRecord, number: int) -> CheckpointRecord:
    return CheckpointRecord(number=number, job=job.name, job_id=job.job_id, at="2026-01-02T03:04:05+00:00", queries=())


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt
