"""Checkpoints whose barriers overtake rows: what is in the channels belongs to them, and a restore reads it first."""

from __future__ import annotations

from pathlib import Path

from tests.integration.place import Place, error_of, wait_until
from tests.integration.test_channel_savepoints import counting, fed, words_of
from tidegate import Restore
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.errors import Code
from tidegate.core.records import CheckpointRecord
from tidegate.storages.schemes import Folder


def checkpoints(place: Place) -> list[CheckpointRecord]:
    job = Folder.of(place.checkpoints / "job")
    return [record for number in retained_numbers(job) if (record := read_retained(job, number)) is not None]


def folder_of(place: Place, record: CheckpointRecord) -> Path:
    return place.checkpoints / "job" / "checkpoints" / str(record.number)


def with_rows_in_flight(place: Place, *, aligned_timeout: float = 0.0) -> CheckpointRecord:
    """The newest such checkpoint of a job whose reader is far behind, after the job was canceled."""
    with fed(place, files=40, every_seconds=0.2):
        job = counting(
            place,
            seconds=0.3,
            checkpointing_retained=2,
            checkpointing_unaligned=True,
            checkpointing_aligned_timeout=aligned_timeout,
        )
        handle = job.start()
        try:
            wait_until(lambda: any(each.in_flight for each in checkpoints(place)), "a checkpoint with rows in flight")
        finally:
            handle.cancel()
    return [each for each in checkpoints(place) if each.in_flight][-1]


def test_a_restore_reads_the_rows_in_flight_and_is_exact(place: Place) -> None:
    """Twice: also the second restore finds them, although the job has run behind them since."""
    checkpoint = with_rows_in_flight(place)
    assert checkpoint.alignment == "unaligned"
    assert checkpoint.taken["count"].rows_in_flight > 0 == checkpoint.taken["write"].rows_in_flight
    for rewind in ("monday", "tuesday"):
        place.write("sea", "wind")
        back = Restore(str(folder_of(place, checkpoint)), rewind=rewind)
        counting(place, checkpointing_retained=40).start(until="caught-up", savepoint=back).wait()
        assert dict(place.table()) == words_of(place)


def test_a_checkpoint_that_aligns_for_too_long_overtakes_the_rows(place: Place) -> None:
    checkpoint = with_rows_in_flight(place, aligned_timeout=0.5)
    back = Restore(str(folder_of(place, checkpoint)), rewind="once")
    counting(place).start(until="caught-up", savepoint=back).wait()
    assert dict(place.table()) == words_of(place)


def test_another_job_is_not_restored_from_a_checkpoint_with_rows_in_flight(place: Place) -> None:
    checkpoint = with_rows_in_flight(place)
    elsewhere = str(place.folder / "elsewhere")
    job = counting(place, "copy", "copy.db", checkpointing_dir=elsewhere)
    refused = error_of(lambda: job.start(until="caught-up", savepoint=folder_of(place, checkpoint)))
    assert refused.catalogue_entry is Code.SAVEPOINT_REFUSED
    assert "take a savepoint there" in refused.next_step
