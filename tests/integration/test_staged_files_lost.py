"""A staged file of a lake table that another tool has removed: the job stops, and a restore continues it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.integration.place import Place, error_of, run
from tests.integration.test_restore import run_from
from tests.support import delta, iceberg
from tests.support.today import turn
from tidegate import DeltaSink, IcebergSink, Job, Restore
from tidegate.core.records import Answer, Committable


def job_of(place: Place, sink: DeltaSink | IcebergSink) -> Job:
    job = place.job()
    job.query("query", place.words(job), sinks=[sink])
    return job


def sink_of(place: Place, kind: type[DeltaSink | IcebergSink]) -> DeltaSink | IcebergSink:
    return DeltaSink("numbers", place.folder / "t") if kind is DeltaSink else iceberg.sink_in(place.folder)


def words(place: Place, kind: type[DeltaSink | IcebergSink]) -> list[str]:
    rows = delta.rows_of(place.folder / "t") if kind is DeltaSink else iceberg.rows_of(iceberg.opened(place.folder))
    return sorted(row["word"] for row in rows)


@turn(3, of=4)
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", [DeltaSink, pytest.param(IcebergSink, marks=pytest.mark.more)])
def test_a_job_whose_staged_files_were_removed_goes_on_from_its_newest_checkpoint_in_a_new_folder(
    place: Place, monkeypatch: pytest.MonkeyPatch, kind: type[DeltaSink | IcebergSink]
) -> None:
    place.write("sea")
    run(job_of(place, sink_of(place, kind)))
    place.write("sand")
    original = kind.commit

    def removed(sink: DeltaSink | IcebergSink, committables: Sequence[Committable]) -> Sequence[Answer]:
        for staged in place.folder.rglob(".tidegate/**/*.staged"):
            staged.unlink()
        return original(sink, committables)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(kind, "commit", removed)
        assert error_of(lambda: run(job_of(place, sink_of(place, kind)))).code == "TG-TRANSACTION-LOST"
    assert words(place, kind) == ["sea"], "nothing of the epoch"

    def restored(wish: Restore) -> None:
        run_from(job_of(place, sink_of(place, kind)), wish)

    (newest,) = (place.checkpoints / "job" / "checkpoints").glob("[0-9]*")
    back = Restore(str(newest), rewind="once")
    assert error_of(lambda: run(job_of(place, sink_of(place, kind)))).code == "TG-TRANSACTION-LOST"
    assert error_of(lambda: restored(back)).code == "TG-TRANSACTION-LOST", "a rewind commits decided epochs first"

    aside = (place.checkpoints / "job").rename(place.folder / "job.lost")
    at = str(aside / "checkpoints" / newest.name)
    assert error_of(lambda: restored(Restore(at))).code == "TG-SINK-OF-ANOTHER-JOB"
    restored(Restore(at, claim=True))
    assert words(place, kind) == ["sand", "sea"]
