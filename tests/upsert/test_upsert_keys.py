"""Keys of the upsert sink, on each database: who wins, deletions and their stamps, owners, collations, tables."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tests.support.mariadb import PASSWORD
from tests.upsert.places import ALL, KEYED, Place, batch_of, begun, identity_of, opened, place_on, plan, prepared, row
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Attempt, Outcome
from tidegate.operate.sinks import describe, open_sink
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.upsert.sink import UpsertSink
from tidegate.testing.contract import IDENTITY, attempt_of


@pytest.fixture(params=ALL)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_on(request.param, request, tmp_path)


def test_the_last_row_of_a_key_wins_and_a_mark_deletes_it(place: Place) -> None:
    sink = opened(place)
    rows = [row(1, "a"), row(2, "b"), row(1, "c"), row(3, "x", gone=None), row(2, gone=True), row(4, gone=True)]
    prepared(sink, [*rows, row(4, "back")])
    assert place.rows() == {1: "c", 3: "x", 4: "back"}
    prepared(sink, [row(3, gone=True), row(5, None)], epoch=1)
    assert place.rows() == {1: "c", 4: "back", 5: None}


def test_a_row_of_the_user_is_replaced_by_key_and_its_other_columns_stay(place: Place) -> None:
    place.execute(f"CREATE TABLE @the totals@ (k bigint PRIMARY KEY, v {place.text})")
    place.execute("INSERT INTO @the totals@ VALUES (1, 'by hand'), (2, 'by hand')")
    sink = place.sink()
    assert list(sink.check(plan())) == []
    sink.open(plan())
    prepared(sink, [row(1, "by the sink")])
    assert place.rows() == {1: "by the sink", 2: "by hand"}
    assert place.stamps() == [1]


def test_a_deleted_key_does_not_come_back_by_an_earlier_row(place: Place) -> None:
    """Also when the stamp is cleaned up, because then its epoch takes no row."""
    sink = opened(place)
    early, later = begun(sink, epoch=1, attempt=7), begun(sink, epoch=1, attempt=8)
    committable = prepared(sink, [row(1, "x"), row(2, gone=True)], epoch=1, task=3)
    early.write(batch_of([row(2, "resurrected"), row(9, "of its own")]))
    assert early.pre_commit() is not None
    assert place.rows() == {1: "x", 9: "of its own"}, "task 0 is before task 3"
    assert place.stamps() == [1, 2, 9]
    sink.commit([committable])
    sink.clean(IDENTITY, 0)
    assert place.stamps() == [1, 2, 9]
    sink.clean(IDENTITY, 1)
    assert place.stamps() == [1, 9]
    later.write(batch_of([row(2, "resurrected")]))
    with pytest.raises(TidegateError) as raised:
        later.pre_commit()
    later.abort()
    assert raised.value.code == "TG-EPOCH-FINISHED"
    assert place.rows() == {1: "x", 9: "of its own"}


def test_a_later_epoch_brings_a_deleted_key_back(place: Place) -> None:
    sink = opened(place)
    prepared(sink, [row(1, gone=True)])
    prepared(sink, [row(1, "back")], epoch=1)
    sink.clean(IDENTITY, 1)
    assert (place.rows(), place.stamps()) == ({1: "back"}, [1])


def test_a_key_of_another_job_is_refused_by_its_name_and_nothing_of_the_task_is_written(place: Place) -> None:
    sink = opened(place)
    prepared(sink, [row(7, "first")])
    theirs = identity_of(job="others", job_id="beef")
    late = begun_by(sink, theirs)
    late.write(batch_of([row(1, "theirs"), row(7, "theirs")]))
    with pytest.raises(TidegateError) as raised:
        late.pre_commit()
    late.abort()
    assert raised.value.code == "TG-SINK-OF-ANOTHER-JOB"
    assert "'k': 7" in raised.value.found
    assert "5f0c/by-day/numbers" in raised.value.found
    assert place.rows() == {7: "first"}
    assert place.stamps() == [7]


def test_a_forgotten_job_loses_its_keys_to_the_job_that_writes_them_and_its_driver_writes_nothing(place: Place) -> None:
    sink = opened(place)
    prepared(sink, [row(1, "old"), row(2, "old")])
    late = begun(sink, epoch=1)
    sink.forget(IDENTITY)
    sink.forget(IDENTITY)
    theirs = begun_by(sink, identity_of(job="others", job_id="beef"))
    theirs.write(batch_of([row(1, "new")]))
    assert theirs.pre_commit() is not None
    late.write(batch_of([row(2, "late")]))
    with pytest.raises(TidegateError, match="TG-RUN-SUPERSEDED"):
        late.pre_commit()
    late.abort()
    assert place.rows() == {1: "new", 2: "old"}
    assert sink.begin_run(IDENTITY, 99, "later") is not None


def test_a_target_that_lost_the_rows_of_an_epoch_before_its_commit_says_so(place: Place) -> None:
    sink = opened(place)
    first, second = (prepared(sink, [row(task, "x")], task=task) for task in range(2))
    place.execute(f"DELETE FROM @_tidegate_marks@ WHERE digest = '{second.digest}'")
    assert [each.outcome for each in sink.commit([first, second])] == [Outcome.RETRY, Outcome.LOST]
    assert sink.position(IDENTITY) is None


def test_finished_epochs_leave_no_mark_and_no_stage(place: Place) -> None:
    sink = opened(place)
    committables = [prepared(sink, [row(epoch, "x")], epoch=epoch) for epoch in range(3)]
    prepared(sink, [row(9, "given up")], epoch=1, run=2)
    for committable in committables:
        sink.commit([committable])
        sink.clean(IDENTITY, committable.attempt.epoch)
    assert place.execute("SELECT count(*) FROM @_tidegate_marks@") == [(0,)]
    assert place.stages() == []


@pytest.mark.parametrize(
    ("place", "declared"),
    [
        pytest.param("sqlite", "text COLLATE NOCASE", id="sqlite"),
        pytest.param("mysql", "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", id="mysql"),
    ],
    indirect=["place"],
)
def test_keys_are_equal_as_the_table_says(place: Place, declared: str) -> None:
    """Its column compares texts in any case."""
    place.execute(f"CREATE TABLE @the totals@ (k {declared} NOT NULL PRIMARY KEY, v {place.text})")
    schema = pa.schema([("k", pa.string()), ("v", pa.string()), ("gone", pa.bool_())])
    sink = place.sink()
    assert list(sink.check(plan(schema))) == []
    sink.open(plan(schema))
    rows = [{"k": "a", "v": "1", "gone": False}, {"k": "A", "v": "2", "gone": False}]
    prepared(sink, [*rows, {"k": "b", "v": "3", "gone": False}, {"k": "B", "v": None, "gone": True}], schema)
    assert list(place.rows().values()) == ["2"]
    assert len(place.stamps()) == 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        pytest.param({"key": []}, "TG-KEY-COLUMN", id="no key"),
        pytest.param({"key": "no such"}, "TG-KEY-COLUMN", id="another key"),
        pytest.param({"deleted": "v"}, "TG-SCHEMA-MISMATCH", id="a mark that is a text"),
        pytest.param({"deleted": "k"}, "TG-KEY-COLUMN", id="a mark in the key"),
    ],
)
def test_a_start_is_refused(place: Place, options: dict[str, Any], code: str) -> None:
    assert code in [each.code for each in place.sink(**options).check(plan())]


def test_a_description_opens_the_same_table_without_the_program(place: Place) -> None:
    sink = opened(place)
    prepared(sink, [row(1, "x")])
    described = describe("q", sink, Level.EXACTLY_ONCE)
    assert "n0t-shown" not in str(described)
    assert "by key inside the epoch" in described.told
    assert all(name == "password" for name in described.target.get("left_out", ()))
    reopened = open_sink(described, {"password": PASSWORD})
    assert isinstance(reopened, UpsertSink)
    assert describe("q", reopened, Level.EXACTLY_ONCE) == described
    reopened.clean(IDENTITY, 0)
    reopened.forget(IDENTITY)
    assert "FAIL" not in [each.health.value for each in reopened.probe("sink", plan(pa.schema([])))]


def test_rows_that_the_table_refuses_are_refused_in_their_task_and_a_deletion_needs_its_key_only(place: Place) -> None:
    place.execute(
        f"CREATE TABLE @the totals@ (k bigint NOT NULL PRIMARY KEY, v {place.text} NOT NULL, CHECK (v <> 'bad'))"
    )
    sink = opened(place)
    rows = [row(1, "good"), row(2, "bad"), row(3, None), row(4, None, gone=True)]
    batch = pa.RecordBatch.from_pylist([*rows, {"k": None, "v": "x", "gone": True}], schema=KEYED)
    sink.in_epoch(0)
    assert [each.row for each in sink.refused(batch)] == [1, 2, 4]
    prepared(sink, [rows[0], rows[3]])
    with pytest.raises(RowRefused):
        prepared(sink, [rows[1]], epoch=1)
    assert place.rows() == {1: "good"}


@pytest.mark.timeout(120)
def test_tasks_that_write_the_same_keys_at_once_all_succeed_and_the_last_one_wins(place: Place) -> None:
    """Each has them in another order."""
    sink = opened(place)
    order = Random(7)

    def prepare(task: int, epoch: int, keys: list[int]) -> None:
        transaction = sink.begin(attempt_of(epoch=epoch, task=task))
        transaction.write(batch_of([row(key, f"{epoch} {task}", gone=key % 5 == task) for key in keys]))
        assert transaction.pre_commit() is not None

    assert sink.begin_run(IDENTITY, 1, attempt_of().run_token) is None
    with ThreadPoolExecutor(4) as pool:
        for epoch in range(3):
            tasks = [(task, epoch, order.sample(range(300), 300)) for task in range(4)]
            for each in [pool.submit(prepare, *task) for task in tasks]:
                each.result()
    assert place.rows() == {key: "2 3" for key in range(300) if key % 5 != 3}


def begun_by(sink: UpsertSink, identity: Any) -> Any:
    attempt = attempt_of()
    assert sink.begin_run(identity, attempt.run, attempt.run_token) is None
    names = Attempt.__struct_fields__
    return sink.begin(Attempt(**{**{name: getattr(attempt, name) for name in names}, "sink": identity}))
