"""The Iceberg sink and tables that change behind it: rolled back, expired, dropped, replaced; whose evidence counts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.iceberg import NAME, catalog_in, ids_of, ids_of_task, opened, other_writer, sink_in
from tests.support.staged import committed, ids_from, of_attempt, outcome, plan, staged
from tidegate.core.errors import TidegateError
from tidegate.core.records import Committable, Evidence, Outcome, Position, epoch_digest
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.testing.contract import IDENTITY, attempt_of


@pytest.fixture
def sink(tmp_path: Path) -> IcebergSink:
    return sink_in(tmp_path)


# --- tables that go back ---------------------------------------------------------------------------------------


def roll_back(folder: Path, to: int) -> None:
    opened(folder).manage_snapshots().rollback_to_snapshot(to).commit()


def snapshots(folder: Path) -> list[int]:
    return [each.snapshot_id for each in opened(folder).metadata.snapshots]


def expire_all(folder: Path) -> None:
    """Expire each snapshot but the newest one of `main`."""
    later = datetime.now(timezone.utc).replace(tzinfo=None) + timedelta(days=1)
    opened(folder).maintenance.expire_snapshots().older_than(later).commit()


def test_a_table_that_is_rolled_back_has_the_evidence_of_its_older_snapshot(sink: IcebergSink, tmp_path: Path) -> None:
    committables = [staged(sink, epoch) for epoch in range(3)]
    for each in committables:
        assert outcome(sink, each) is Outcome.COMMITTED
    other_writer(tmp_path, [7])
    roll_back(tmp_path, snapshots(tmp_path)[1])
    assert ids_of(tmp_path) == ids_from(0, 1)
    assert sink.position(IDENTITY) == _position(committables[1])
    assert sink.evidence(committables[2]) is Evidence.UNKNOWN
    assert outcome(sink, committables[2]) is Outcome.UNKNOWN, "a running driver stops"
    assert outcome(sink, staged(sink, 3)) is Outcome.UNKNOWN
    assert outcome(sink, staged(sink, 0, generation=2)) is Outcome.COMMITTED, "a new generation begins"


def test_a_table_that_is_rolled_back_and_put_back_has_its_evidence(sink: IcebergSink, tmp_path: Path) -> None:
    committables = [staged(sink, epoch) for epoch in range(2)]
    for each in committables:
        assert outcome(sink, each) is Outcome.COMMITTED
    first, second = snapshots(tmp_path)
    roll_back(tmp_path, first)
    assert sink.position(IDENTITY) == _position(committables[0])
    opened(tmp_path).manage_snapshots().set_current_snapshot(second).commit()
    assert sink.position(IDENTITY) == _position(committables[1])
    assert outcome(sink, committables[1]) is Outcome.ALREADY
    assert outcome(sink, staged(sink, 2)) is Outcome.COMMITTED


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_rollback_is_seen_when_its_snapshots_have_expired(sink: IcebergSink, tmp_path: Path, goes_on: bool) -> None:
    """A property whose snapshot is gone proves nothing while `main` has ancestors from before it."""
    first, second = staged(sink, 0), staged(sink, 1)
    for each in (first, second):
        assert outcome(sink, each) is Outcome.COMMITTED
    old, undone = snapshots(tmp_path)
    roll_back(tmp_path, old)
    if goes_on:
        other_writer(tmp_path, [7])
    opened(tmp_path).maintenance.expire_snapshots().by_id(undone).commit()
    assert sink.position(IDENTITY) == _position(first)
    assert sink.evidence(second) is Evidence.UNKNOWN
    assert outcome(sink, second) is Outcome.UNKNOWN


def test_a_table_that_is_rolled_back_before_all_its_rows_has_no_evidence(sink: IcebergSink, tmp_path: Path) -> None:
    sink.open(plan())
    other_writer(tmp_path, [7])
    committed(sink, 0)
    roll_back(tmp_path, snapshots(tmp_path)[0])
    assert sink.position(IDENTITY) is None
    assert outcome(sink, staged(sink, 1)) is Outcome.UNKNOWN


# --- snapshots that expire -------------------------------------------------------------------------------------


def test_evidence_stays_when_its_snapshot_has_expired(sink: IcebergSink, tmp_path: Path) -> None:
    alone, pair = staged(sink, 0), [staged(sink, 1, task=task) for task in range(2)]
    assert outcome(sink, alone) is Outcome.COMMITTED
    other_writer(tmp_path, [7])
    expire_all(tmp_path)
    assert len(snapshots(tmp_path)) == 1
    assert sink.position(IDENTITY) == _position(alone)
    assert sink.evidence(alone) is Evidence.PRESENT
    assert outcome(sink, alone) is Outcome.ALREADY
    assert outcome(sink, of_attempt(sink, attempt_of(run=2))) is Outcome.UNKNOWN, "another timeline of the epoch"
    assert outcome(sink, *pair) is Outcome.COMMITTED
    other_writer(tmp_path, [8])
    expire_all(tmp_path)
    assert outcome(sink, *pair) is Outcome.ALREADY
    assert [sink.evidence(each) for each in pair] == [Evidence.UNKNOWN] * 2, "one alone cannot be told"
    assert outcome(sink, alone) is Outcome.UNKNOWN, "an epoch below"
    assert ids_of(tmp_path) == sorted([7, 8, *ids_from(0), *ids_of_task(1, 0), *ids_of_task(1, 1)])


def test_evidence_does_not_grow_with_the_epochs(sink: IcebergSink, tmp_path: Path) -> None:
    """Table properties stay as they are, and expired snapshots take their evidence with them."""
    sizes: list[int] = []
    for epoch in range(24):
        committed(sink, epoch)
        sink.clean(IDENTITY, epoch)
        if epoch % 8 == 7:
            other_writer(tmp_path, [-epoch])
            expire_all(tmp_path)
            table = opened(tmp_path)
            sizes.append(len(table.metadata.model_dump_json(exclude={"metadata_log"})))
            assert sorted(table.properties) == ["tidegate.newest.orders.by-day.numbers"]
    assert max(sizes) < sizes[0] * 1.1, sizes  # beside the list of older metadata files, which the library keeps
    assert ids_of(tmp_path)[3:] == ids_from(*range(24))
    assert [path for path in tmp_path.rglob("*.staged") if path.is_file()] == []


# --- tables that are dropped or replaced -----------------------------------------------------------------------


def test_a_table_that_is_dropped_holds_the_epoch_up(sink: IcebergSink, tmp_path: Path) -> None:
    committable = staged(sink)
    metadata = opened(tmp_path).metadata_location
    catalog_in(tmp_path).drop_table(NAME)
    (answer,) = sink.commit([committable])
    assert (answer.outcome, "no table any more" in answer.detail) == (Outcome.RETRY, True)
    assert sink.evidence(committable) is Evidence.UNKNOWN
    assert sink.position(IDENTITY) is None
    catalog_in(tmp_path).register_table(NAME, metadata)
    assert outcome(sink, committable) is Outcome.COMMITTED


def test_a_table_that_is_made_again_gets_no_rows_of_the_older_one(sink: IcebergSink, tmp_path: Path) -> None:
    committed(sink, 0)
    committable = staged(sink, 1)
    catalog_in(tmp_path).drop_table(NAME)
    again = sink_in(tmp_path)
    again.open(plan())
    assert again.position(IDENTITY) is None
    assert outcome(again, committable) is Outcome.UNKNOWN
    assert again.evidence(committable) is Evidence.UNKNOWN
    assert ids_of(tmp_path) == []
    assert outcome(again, staged(again, 0, generation=2)) is Outcome.COMMITTED


def test_a_column_that_was_dropped_meanwhile_holds_the_epoch_up(sink: IcebergSink, tmp_path: Path) -> None:
    committable = staged(sink)
    opened(tmp_path).update_schema().delete_column("word").commit()
    (answer,) = sink.commit([committable])
    assert (answer.outcome, "lacks ['word']" in answer.detail) == (Outcome.RETRY, True)
    opened(tmp_path).update_schema().add_column("word", _word_type()).commit()
    (answer,) = sink.commit([committable])
    assert answer.outcome is Outcome.RETRY, "a new column of the same name is another one"
    assert ids_of(tmp_path) == []


def _word_type() -> Any:
    from pyiceberg.types import StringType

    return StringType()


def test_a_catalog_that_cannot_be_reached_is_waited_for(sink: IcebergSink, tmp_path: Path) -> None:
    committable, file = staged(sink), tmp_path / "catalog.db"
    away = file.with_suffix(".away")
    file.rename(away)
    file.mkdir()
    again = sink_in(tmp_path)
    _forget_connections()
    assert outcome(again, committable) is Outcome.RETRY
    assert again.evidence(committable) is Evidence.UNKNOWN
    with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
        again.position(IDENTITY)
    assert again.check(plan())[0].code == "TG-SINK-UNUSABLE"
    file.rmdir()
    away.rename(file)
    assert outcome(again, committable) is Outcome.COMMITTED


def _forget_connections() -> None:
    from tidegate.sinks.iceberg import place

    place._open.clear()


# --- who the evidence belongs to -------------------------------------------------------------------------------


def test_evidence_of_a_job_that_moved_to_another_name_counts(sink: IcebergSink) -> None:
    committed(sink, 4)
    moved = msgspec.structs.replace(IDENTITY, job="another name")
    found = sink.position(moved)
    assert found is not None
    assert found.epoch == 4
    sink.forget(moved)
    assert sink.position(moved) is None
    assert sink.position(IDENTITY) is None


def test_a_job_that_is_forgotten_leaves_its_rows_and_the_evidence_of_others(sink: IcebergSink, tmp_path: Path) -> None:
    committed(sink, 0)
    other = msgspec.structs.replace(IDENTITY, sink="other")
    assert outcome(sink, of_attempt(sink, msgspec.structs.replace(attempt_of(), sink=other))) is Outcome.COMMITTED
    sink.forget(IDENTITY)
    sink.forget(IDENTITY)
    assert sink.position(IDENTITY) is None
    assert sink.position(other) is not None
    anew = msgspec.structs.replace(IDENTITY, job_id="beef")
    assert sink.position(anew) is None
    assert outcome(sink, of_attempt(sink, msgspec.structs.replace(attempt_of(), sink=anew))) is Outcome.COMMITTED
    sink.forget(IDENTITY)
    assert sink.position(anew) is not None
    assert len(ids_of(tmp_path)) == 6


def test_the_mark_of_a_forgotten_job_goes_with_its_last_snapshot(sink: IcebergSink, tmp_path: Path) -> None:
    committed(sink, 0)
    sink.forget(IDENTITY)
    anew = msgspec.structs.replace(IDENTITY, job_id="beef")
    for epoch in range(2):
        attempt = msgspec.structs.replace(attempt_of(epoch=epoch), sink=anew)
        assert outcome(sink, of_attempt(sink, attempt)) is Outcome.COMMITTED
        marks = [name for name in opened(tmp_path).properties if "forgotten" in name]
        assert marks == (["tidegate.forgotten.5f0c.by-day.numbers"] if epoch == 0 else [])
        assert sink.position(IDENTITY) == sink.position(anew)
        expire_all(tmp_path)


def test_evidence_that_was_changed_is_told(sink: IcebergSink, tmp_path: Path) -> None:
    committed(sink, 0)
    table = opened(tmp_path)
    name = "tidegate.newest.orders.by-day.numbers"
    table.transaction().set_properties({name: "{ torn"}).commit_transaction()
    with pytest.raises(TidegateError, match=name):
        sink.position(IDENTITY)


def _position(committable: Committable) -> Position:
    attempt = committable.attempt
    return Position(
        job_id=attempt.sink.job_id,
        generation=attempt.sink.generation,
        epoch=attempt.epoch,
        digest=epoch_digest([committable]),
    )
