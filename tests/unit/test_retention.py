"""Giving up a job's checkpoints: what goes, and what stays."""

from __future__ import annotations

from pathlib import Path

from tests.simulation.openers_memory import in_memory
from tidegate.checkpoints.done_epoch import seal_of
from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.checkpoints.succession import begin_job
from tidegate.core.records import JobRecord, encode
from tidegate.savepoints.fresh import first_generation
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
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
