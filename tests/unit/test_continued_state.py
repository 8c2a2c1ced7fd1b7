"""State without unique names in a generation that continues a sealed one: it is as the sealed one's records say."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.test_state_proof import Generation
from tidegate.checkpoints.job_layout import RESTORES
from tidegate.core.channel_parts import LiveParts
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import DECIDED, entry
from tidegate.core.records import JobRecord, Restored, Run, Sealed, encode
from tidegate.savepoints.continued import Continuing, open_continuation
from tidegate.savepoints.restored import live_parts
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

OLDER = JobRecord(name="job", job_id="0f1e2d3c", generation=1)
NEWER = JobRecord(name="job", job_id="0f1e2d3c", generation=2)
RUN = Run(run=1, token="0a", host="host", process=1, since="now")


@pytest.fixture
def sealed(tmp_path: Path) -> Generation:
    """Three epochs, and a seal; then a driver that was paused has written a snapshot."""
    generation = Generation(tmp_path)
    generation.begin_run(-1)
    for epoch in range(3):
        generation.finish(epoch)
    generation.ledger.put_if_absent(entry(DECIDED, 3), encode(Sealed(epoch=3)))
    generation.write("0/3.snapshot", "of a late writer")
    return generation


def test_a_continued_generation_takes_the_state_that_the_records_name(sealed: Generation) -> None:
    go_on(sealed)
    spark = sealed.spark.parent.parent / "g2/spark"
    found = sorted(path.relative_to(spark / "state/0").as_posix() for path in spark.rglob("state/*/*/*"))
    assert found == [f"{store}/{version}.delta" for store in range(2) for version in (1, 2, 3)]


def test_a_continued_generation_refuses_state_that_was_written_over(sealed: Generation) -> None:
    sealed.write("1/2.delta", "of a late writer")
    with pytest.raises(TidegateError) as caught:
        go_on(sealed)
    assert caught.value.code == "TG-STATE-OVERWRITTEN"
    assert caught.value.where == str(sealed.spark / "state/0/1/2.delta")


@pytest.mark.parametrize("late", [False, True])
def test_a_continued_generation_is_no_restore(sealed: Generation, *, late: bool) -> None:
    """The rows that wait in a channel are those of the restored job: its readers read them. `late`: an opener that was
    paused notes its restore, which never counts.
    """
    folder = sealed.folder.parent.parent.parent
    note(folder, OLDER, "2026-01-01")
    if late:
        note(folder, NEWER, "2026-01-02")
    newest = msgspec.structs.replace(NEWER, generation=3 if late else 2)
    open_continuation(Continuing(job_folder=folder, older=OLDER, newer=newest, run=RUN))
    assert live_parts(folder, newest) == LiveParts(1)
    note(folder, newest, "2026-01-03")
    assert live_parts(folder, newest) == LiveParts(newest.generation)


def note(folder: Folder, record: JobRecord, at: str) -> None:
    """The record of a restore."""
    restored = Restored(
        job_id=record.job_id, generation=record.generation, savepoint="saved", digest="", at=at, epochs={}
    )
    open_storage(folder).replace(entry(RESTORES, record.generation), encode(restored))


def go_on(sealed: Generation) -> None:
    folder = sealed.folder.parent.parent.parent
    open_continuation(Continuing(job_folder=folder, older=OLDER, newer=NEWER, run=RUN))
