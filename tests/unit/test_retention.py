"""Giving up a job's checkpoints: what goes, and what stays."""

from __future__ import annotations

from pathlib import Path

from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.core.records import JobRecord, encode
from tidegate.storages.schemes import Folder


def test_all_that_a_job_would_go_on_from_goes_and_its_history_stays(tmp_path: Path):
    (tmp_path / "job.json").write_bytes(encode(JobRecord(name="job", job_id="0123abcd", generation=1)))
    for name in ("queries/q/g1", "checkpoints/7", "ingest/lines", "history/failures", "locks"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    forgotten: list[str] = []
    delete_checkpoints(Folder.of(tmp_path), "0123abcd", forgotten.append)
    assert forgotten == ["0123abcd"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history", "locks"]
