"""Several files an attempt: Hive's folders, files that are ended at a size, kills between any two steps of a commit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.fs_recorder import Event, FsRecorder
from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt, Committable, Evidence, Outcome
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.files import transaction as file_stage
from tidegate.sinks.files.hive_folders import by_folder, folder_name
from tidegate.sinks.files.local_place import LocalPlace
from tidegate.sinks.files.parts import parts_of
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.files.transaction import FileTransaction
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from

Row = dict[str, object]

DAYS = pa.schema([("day", pa.string()), ("hour", pa.int32()), ("id", pa.int64())])


def plan(schema: pa.Schema = SCHEMA) -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: [])


def by_day(path: Path, *, max_file_rows: int | None = None) -> FileSink:
    sink = FileSink("numbers", path, format="json", partition_by=["day", "hour"], max_file_rows=max_file_rows)
    sink.open(plan(DAYS))
    return sink


def local(sink: FileSink) -> LocalPlace:
    assert isinstance(sink.place, LocalPlace)
    return sink.place


def days(*rows: tuple[str | None, int | None, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"day": day, "hour": hour, "id": key} for day, hour, key in rows], schema=DAYS)


def prepared(sink: FileSink, batch: pa.RecordBatch, attempt: Attempt | None = None) -> Committable:
    transaction = sink.begin(attempt or attempt_of())
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


def outcomes(sink: FileSink, committables: Sequence[Committable]) -> list[Outcome]:
    return [answer.outcome for answer in sink.commit(committables)]


def visible(folder: Path) -> dict[str, list[Row]]:
    """The rows that readers find, by the folder they stand in; files of one folder in the order of their names."""
    found: dict[str, list[Row]] = {}
    for file in sorted(folder.rglob("*.json")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        found.setdefault(str(file.parent.relative_to(folder)), []).extend(rows)
    return found


def files_in(folder: Path, suffix: str = ".json") -> list[Path]:
    return sorted(folder.rglob(f"*{suffix}"))


# --- folders -----------------------------------------------------------------------------------------------


def test_rows_stand_in_the_folders_of_their_values_in_their_order(tmp_path: Path) -> None:
    sink = by_day(tmp_path)
    committable = prepared(sink, days(("b", 1, 1), ("a", 2, 2), ("b", 1, 3), (None, None, 4), ("a", 3, 5)))
    assert visible(tmp_path) == {}
    assert outcomes(sink, [committable]) == [Outcome.COMMITTED]
    assert visible(tmp_path) == {
        "day=b/hour=1": [{"id": 1}, {"id": 3}],
        "day=a/hour=2": [{"id": 2}],
        "day=a/hour=3": [{"id": 5}],
        "day=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__": [{"id": 4}],
    }
    assert [part.folder for part in parts_of(committable)][:2] == ["day=b/hour=1", "day=a/hour=2"]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("2026-11-21", "x=2026-11-21"),
        ("a b+ä.", "x=a b+ä."),
        ("50%/[a]{b}^", "x=50%25%2F%5Ba%5D%7Bb}%5E"),
        ("a:b=c?d*e", "x=a%3Ab%3Dc%3Fd%2Ae"),
        ("\"'\\#\x7f\n\0", "x=%22%27%5C%23%7F%0A%00"),
        ("", "x=__HIVE_DEFAULT_PARTITION__"),
        (None, "x=__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_folder_is_named_as_spark_names_it(value: str | None, name: str) -> None:
    assert folder_name("x", value) == name


def test_every_type_that_names_a_folder_has_one_text() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "i": pa.array([-7], pa.int8()),
            "b": pa.array([True]),
            "d": pa.array([date(2026, 1, 2)]),
            "s": pa.array(["x"], pa.large_string()),
            "id": pa.array([1]),
        }
    )
    assert [folder for folder, _ in by_folder(batch, ["i", "b", "d", "s"])] == ["i=-7/b=true/d=2026-01-02/s=x"]


def test_a_value_that_no_folder_can_be_named_after_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(RowRefused, match="255 bytes"):
        prepared(by_day(tmp_path), days(("ä" * 126, 1, 1)))


def test_a_path_that_is_too_long_fails_the_task_and_never_a_decided_epoch(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(17)]
    sink = FileSink("numbers", tmp_path, format="json", partition_by=names)
    row = {**dict.fromkeys(names, "x" * 250), "id": 1}
    with pytest.raises(RowRefused, match="4096 bytes"):
        prepared(sink, pa.RecordBatch.from_pylist([row]))


def test_more_folders_than_open_files_are_written_in_turns(tmp_path: Path) -> None:
    sink = by_day(tmp_path)
    transaction = FileTransaction(replace(local(sink).stage, open_at_most=3), attempt_of(), sink.shape)
    for turn in range(2):
        transaction.write(days(*((f"d{number}", 0, turn * 10 + number) for number in range(5))))
        assert len(transaction._open) == 3
    committable = transaction.pre_commit()
    assert committable is not None
    assert outcomes(sink, [committable]) == [Outcome.COMMITTED]
    assert visible(tmp_path) == {f"day=d{n}/hour=0": [{"id": n}, {"id": 10 + n}] for n in range(5)}


def test_a_task_with_too_many_files_fails_and_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stage, "FILES_AT_MOST", 4)
    transaction = by_day(tmp_path).begin(attempt_of())
    with pytest.raises(TidegateError, match=r"TG-SCHEMA-MISMATCH[\s\S]*at most 4 files"):
        transaction.write(days(*((f"d{number}", 0, number) for number in range(5))))
    transaction.abort()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_what_many_writers_hold_back_together_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stage, "HELD_BYTES_AT_MOST", 1000)
    sink = FileSink("numbers", tmp_path, partition_by="day")
    transaction = FileTransaction(sink.place.stage, attempt_of(), sink.shape)
    for turn in range(20):
        transaction.write(days(*((f"d{number}", 0, turn) for number in range(20))))
        assert sum(file.writer.held_bytes for file in transaction._open.values()) <= 1000
    committable = transaction.pre_commit()
    assert committable is not None
    sink.commit([committable])
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in files_in(tmp_path, ".parquet")) == 400


# --- files that are ended ----------------------------------------------------------------------------------


def test_no_file_has_more_rows_than_allowed_and_none_is_smaller_than_it_need_be(tmp_path: Path) -> None:
    sink = FileSink("numbers", tmp_path, format="json", max_file_rows=4)
    transaction = sink.begin(attempt_of())
    for first in range(3):
        transaction.write(rows_from(first, 3))
    committable = transaction.pre_commit()
    assert committable is not None
    sink.commit([committable])
    assert [len(file.read_text().splitlines()) for file in files_in(tmp_path)] == [4, 4, 1]
    assert [row["id"] for row in visible(tmp_path)["."]] == [0, 1, 2, 1000, 1001, 1002, 2000, 2001, 2002]


def test_a_file_is_ended_at_about_the_size_that_was_asked_for(tmp_path: Path) -> None:
    sink = FileSink("numbers", tmp_path, format="json", target_file_bytes=100_000)
    sink.commit([prepared(sink, rows_from(0, 20_000))])
    *whole, last = [file.stat().st_size for file in files_in(tmp_path)]
    assert len(whole) > 3
    assert all(100_000 <= size_bytes < 140_000 for size_bytes in whole)
    assert 0 < last < 140_000


def test_each_folder_counts_for_itself(tmp_path: Path) -> None:
    sink = by_day(tmp_path, max_file_rows=2)
    sink.commit([prepared(sink, days(("a", 0, 1), ("b", 0, 2), ("a", 0, 3), ("a", 0, 4)))])
    assert Counter(file.parent.parent.name for file in files_in(tmp_path)) == {"day=a": 2, "day=b": 1}


# --- commits that break off --------------------------------------------------------------------------------


class Killed(BaseException):
    """What stands for SIGKILL: nothing in the product catches it."""


TASKS = [days(("a", 0, 1), ("b", 0, 2), (None, 0, 3)), days(("b", 0, 4), ("c", 7, 5))]
PUBLISHED = {
    "day=a/hour=0": [{"id": 1}],
    "day=b/hour=0": [{"id": 2}, {"id": 4}],
    "day=__HIVE_DEFAULT_PARTITION__/hour=0": [{"id": 3}],
    "day=c/hour=7": [{"id": 5}],
}


def prepared_tasks(sink: FileSink) -> list[Committable]:
    return [prepared(sink, batch, attempt_of(task=task)) for task, batch in enumerate(TASKS)]


def steps_of_a_commit(folder: Path) -> list[Event]:
    with pytest.MonkeyPatch.context() as patch:
        sink = by_day(folder)
        committables = prepared_tasks(sink)
        disk = FsRecorder(patch, below=folder)
        sink.commit(committables)
        return disk.events


def killing_before_step(number: int) -> Callable[[Event], None]:
    left = iter(range(number))

    def strike(event: Event) -> None:
        if next(left, None) is None:
            raise Killed(event)

    return strike


def test_a_commit_that_is_killed_before_any_step_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = steps_of_a_commit(tmp_path / "whole")
    assert Counter(step.what for step in steps)["rename"] == 5
    for number in range(len(steps)):
        folder = tmp_path / str(number)
        sink = by_day(folder)
        committables = prepared_tasks(sink)
        with monkeypatch.context() as patch:
            disk = FsRecorder(patch, below=folder)
            disk.before_each = killing_before_step(number)
            with pytest.raises(Killed):
                sink.commit(committables)
        successor = by_day(folder)
        assert {successor.evidence(each) for each in committables} <= {Evidence.ABSENT, Evidence.PRESENT}
        assert set(outcomes(successor, committables)) <= {Outcome.COMMITTED, Outcome.ALREADY}
        assert visible(folder) == PUBLISHED, f"killed before {steps[number]}"
        assert {successor.evidence(each) for each in committables} == {Evidence.PRESENT}


def test_files_are_synced_before_they_are_prepared_and_every_folder_above_after_the_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FsRecorder(monkeypatch, below=tmp_path)
    sink = by_day(tmp_path)
    committables = prepared_tasks(sink)
    for committable in committables:
        for part in parts_of(committable):
            assert local(sink).files.file(committable.attempt, part.number) in disk.synced()
    disk.forget()
    sink.commit(committables)
    renames = [number for number, event in enumerate(disk.events) if event.what == "rename"]
    assert len(renames) == 5
    for number in renames:
        later = {event.path for event in disk.events[number:] if event.what == "sync"}
        final = disk.events[number].to
        assert final is not None
        assert {folder for folder in final.parents if folder.is_relative_to(tmp_path)} <= later


def test_a_part_that_was_torn_before_any_rename_keeps_its_whole_attempt_back(tmp_path: Path) -> None:
    sink = by_day(tmp_path)
    committables = prepared_tasks(sink)
    local(sink).files.file(committables[0].attempt, 2).write_bytes(b"")
    assert outcomes(sink, committables) == [Outcome.LOST, Outcome.RETRY]
    assert visible(tmp_path) == {}


def test_folders_that_readers_removed_hold_nothing_up(tmp_path: Path) -> None:
    sink = by_day(tmp_path)
    committables = prepared_tasks(sink)
    sink.commit(committables)
    for file in files_in(tmp_path):
        file.unlink()
    for folder in sorted(tmp_path.glob("day=*/*")):
        folder.rmdir()
        folder.parent.rmdir()
    assert outcomes(by_day(tmp_path), committables) == [Outcome.ALREADY] * 2
    assert visible(tmp_path) == {}


def test_after_clean_up_every_file_must_be_there_to_prove_it(tmp_path: Path) -> None:
    sink = by_day(tmp_path)
    committables = prepared_tasks(sink)
    sink.commit(committables)
    sink.clean(IDENTITY, 0)
    assert {sink.evidence(each) for each in committables} == {Evidence.PRESENT}
    files_in(tmp_path / "day=c")[0].unlink()
    assert [sink.evidence(each) for each in committables] == [Evidence.PRESENT, Evidence.UNKNOWN]


def test_discarded_attempts_are_counted_once_each(tmp_path: Path) -> None:
    sink = by_day(tmp_path)
    prepared_tasks(sink)
    assert sink.discard(IDENTITY, 0) == 2
    assert sink.discard(IDENTITY, 0) == 0


def test_one_unpartitioned_file_has_the_handle_that_it_always_had(tmp_path: Path) -> None:
    committable = prepared(FileSink("numbers", tmp_path, format="json"), rows_from(0, 2))
    assert set(committable.handle) == {"size_bytes", "checksum", "suffix"}
    assert [(part.number, part.folder) for part in parts_of(committable)] == [(0, "")]
    assert parts_of(committable)[0].seal.as_handle().items() <= committable.handle.items()


# --- what stands against a start ---------------------------------------------------------------------------


def found_by_check(sink: FileSink, schema: pa.Schema) -> list[str]:
    return [error.found for error in sink.check(plan(schema))]


def test_partition_columns_must_be_there_once_and_not_be_all(tmp_path: Path) -> None:
    def check(*columns: str) -> list[str]:
        return found_by_check(FileSink("numbers", tmp_path, partition_by=columns), DAYS)

    assert check("day", "hour") == []
    assert check("Day", "week") == ["'Day'", "'week'"]
    assert check("day", "day") == ["'day' more than once"]
    assert check("day", "hour", "id") == ["none"]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us", "UTC"), pa.float64(), pa.binary(), pa.list_(pa.string()), pa.decimal128(10, 2)]
)
def test_a_column_without_one_text_names_no_folder(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([("x", kind), ("id", pa.int64())])
    assert found_by_check(FileSink("numbers", tmp_path, partition_by="x"), schema) == [f"'x' is {kind}"]


def test_a_folder_that_readers_would_not_see_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([(".x", pa.string()), ("id", pa.int64())])
    assert found_by_check(FileSink("numbers", tmp_path, partition_by=".x"), schema) == ["'.x' begins with a dot"]


def test_csv_and_text_say_why_they_cannot_hold_a_type(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.list_(pa.string())), ("b", pa.binary())])
    csv = FileSink("numbers", tmp_path, format="csv").check(plan(schema))
    assert [error.found for error in csv] == ["'a' is list<item: string>", "'b' is binary"]
    assert ["F.to_json" in csv[0].next_step, "F.base64" in csv[1].next_step] == [True, True]
    text = FileSink("numbers", tmp_path, format="text").check(plan(DAYS))
    assert [error.found for error in text] == ["'hour' is int32", "'id' is int64", "3: day, hour, id"]


def test_partition_columns_do_not_count_for_the_format(tmp_path: Path) -> None:
    schema = pa.schema([("hour", pa.int32()), ("line", pa.string())])
    assert found_by_check(FileSink("numbers", tmp_path, format="text", partition_by="hour"), schema) == []


@pytest.mark.parametrize(
    "options", [{"header": True}, {"max_file_rows": 0}, {"target_file_bytes": -1}, {"format": "text", "header": True}]
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(TidegateError, match="TG-OPTION-UNKNOWN"):
        FileSink("numbers", tmp_path, **options)  # pyright: ignore[reportArgumentType]
