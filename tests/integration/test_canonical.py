"""A canonical savepoint has the state as Parquet, for whoever reads it; and a job goes on from it in any form."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.place import Place, error_of, wait_until, wait_until_finished
from tests.integration.test_read_savepoint import WORDS, two_counts
from tests.integration.test_restore import Counter as CountingProcessor
from tests.integration.test_restore import event, everything, run_from
from tests.integration.test_state_change import KINDS, compare_state, counting, every_kind, out
from tests.integration.test_state_change import WORDS as COUNTED
from tests.support.today import turn
from tidegate import FileSink, Job, Restore, SQLiteSink, read_savepoint
from tidegate.checkpoints.spark_layout import is_state
from tidegate.core.records import SavepointFormat
from tidegate.savepoints.folder import open_savepoint, savepoints_in, verify


def both(place: Place, job: Job, epoch: int = 0) -> tuple[Path, Path]:
    """A native and a canonical savepoint of the same epochs: one without rows that is due may come between the two."""
    handle = job.start()
    for query in range(len(handle.runs)):
        wait_until_finished(handle, epoch, query)
    taken: list[tuple[Path, Path]] = []

    def of_the_same() -> bool:
        native = handle.savepoint(place.folder / "saved")
        canonical = handle.savepoint(place.folder / "saved", format="canonical")
        assert native is not None
        assert canonical is not None
        taken.append((native, canonical))
        return epochs(native) == epochs(canonical)

    wait_until(of_the_same, "two savepoints of the same epochs")
    handle.stop()
    return taken[-1]


def epochs(savepoint: Path) -> list[int]:
    return [query.done.epoch for query in open_savepoint(savepoint).record.queries]


def plain(value: Any) -> Any:
    """A row without the names of its columns, and without what is null: Parquet has no struct without a column."""
    return tuple(plain(each) for each in value if each is not None) if isinstance(value, tuple) else value


def compare(native: Path, canonical: Path) -> Counter[str]:
    """How many rows each table has, by the kind of its operator; every row in both savepoints."""
    before, after = read_savepoint(native), read_savepoint(canonical)
    assert before.tables == after.tables
    found: Counter[str] = Counter()
    for table in before.tables:
        named: dict[str, Any] = {"operator": table.operator, "store": table.store}
        rows = [sorted(map(plain, each.state(table.query, **named).collect()), key=repr) for each in (before, after)]
        assert rows[0] == rows[1], table
        assert after.state_arrow(table.query, **named).to_table().num_rows == len(rows[0])
        found[table.kind] += len(rows[0])
    return found


@pytest.mark.more
def test_a_canonical_savepoint_has_every_row_of_a_native_one_for_whoever_reads_parquet(place: Place):
    place.write(*(event("01", word) for word in WORDS))
    native, canonical = both(place, two_counts(place))
    shutil.rmtree(place.checkpoints)
    assert compare(native, canonical) == {"dedupe": len(WORDS), "stateStoreSave": len(WORDS)}
    spark = canonical / "queries/counts/spark"
    files = [path.relative_to(spark).as_posix() for path in spark.rglob("*") if path.is_file()]
    assert not [name for name in files if is_state(name)]
    found = open_savepoint(canonical)
    assert (found.record.format, verify(found)) == (SavepointFormat.CANONICAL, [])
    (counts,) = [table.operator for table in read_savepoint(canonical).tables if table.kind == "stateStoreSave"]
    rows = read_savepoint(canonical).state_arrow("counts", operator=counts).to_table().to_pylist()
    assert {row["key"]["word"]: (row["value"]["sum"], row["value"]["sum_2"]) for row in rows} == dict.fromkeys(
        WORDS, (6, 2)
    )
    assert {row["key"]["window"]["start"].second for row in rows} == {0}


@pytest.mark.more
def test_rows_are_written_whatever_the_name_of_the_folder_that_the_job_stands_in(place: Place):
    place.write(*(event("01", word) for word in WORDS))
    handle = two_counts(place, checkpointing_dir=str(place.folder / "two words")).start()
    wait_until_finished(handle, 0)
    canonical = handle.savepoint(place.folder / "saved", format="canonical")
    handle.stop()
    assert canonical is not None
    tables = read_savepoint(canonical)
    rows = [tables.state_arrow(each.query, operator=each.operator).to_table().num_rows for each in tables.tables]
    assert rows == [len(WORDS), len(WORDS)]


@pytest.mark.more
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_every_kind_of_state_has_its_rows(place: Place, backend: str):
    place.write(*(event("01", word) for word in KINDS))
    found = compare(*both(place, every_kind(place, backend, 3)))
    assert found == {
        "sessionWindowStateStoreSaveExec": len(KINDS),
        "stateStoreSave": 1,
        "dedupe": len(KINDS),
        "dedupeWithinWatermark": len(KINDS),
        "symmetricHashJoin": 4 * len(KINDS),
        "applyInPandasWithState": len(KINDS),
    }


@pytest.mark.more
def test_what_has_no_rows_is_refused_before_anything_is_stopped(place: Place):
    job = place.job(parallelism="2")
    few = place.words(job).limit(3)
    job.query("query", few, sinks=[FileSink("out", place.folder / "out", format="json")])
    place.write("sea")
    handle = job.start()
    try:
        wait_until_finished(handle, 0)
        into = place.folder / "saved"
        for refused in (
            lambda: handle.savepoint(into, format="canonical"),
            lambda: handle.stop_with_savepoint(into, format="canonical"),
        ):
            error = error_of(refused)
            assert (error.code, "--type native" in error.next_step) == ("TG-SAVEPOINT-REFUSED", True)
        assert handle.status().running
        assert savepoints_in(into) == ([], [])
        assert handle.savepoint(into) is not None
    finally:
        handle.stop()


FORMS = [
    (("hashmap", 2), ("rocksdb", 1)),  # the cheapest with another backend and other partitions
    pytest.param(("rocksdb", 2), ("hashmap", 3), marks=pytest.mark.more),
    pytest.param(("hashmap", 3), ("rocksdb", 2), marks=pytest.mark.more),
    pytest.param(("rocksdb", 2), ("rocksdb", 2), marks=pytest.mark.more),
    pytest.param(("rocksdb", 2), ("rocksdb", 5), marks=pytest.mark.more),
    pytest.param(("hashmap", 2), ("hashmap", 1), marks=pytest.mark.more),
]


@turn(3, of=4)
@pytest.mark.parametrize(("before", "after"), FORMS, ids=lambda form: f"{form[0]}{form[1]}")
def test_groups_go_on_from_a_canonical_savepoint(place: Place, before: tuple[str, int], after: tuple[str, int]):
    place.write(*(event("01", word) for word in COUNTED[:9]))
    place.write(*(event("01", word) for word in COUNTED[9:]))
    native, canonical = both(place, counting(place, *before), epoch=1)
    place.write(*(event("02", word) for word in COUNTED), event("16", "late"))
    whole = everything(place)
    table = next(canonical.rglob("counts/state/0/default/part-*.parquet"))
    data = table.read_bytes()
    table.write_bytes(data[:9] + bytes([data[9] ^ 1]) + data[10:])
    assert error_of(lambda: run_from(counting(place, *after), canonical)).code == "TG-SAVEPOINT-ALTERED"
    table.write_bytes(data)
    assert everything(place) == whole
    run_from(counting(place, *after), canonical)
    assert place.table() == [("late", 1), *((word, 2) for word in COUNTED)]
    closed = [(row["start"], row["word"], row["n"]) for rows in place.files().values() for row in rows]
    assert sorted(closed) == [("00", word, 2) for word in COUNTED], "windows that were open close with both rows"
    assert compare_state(place, native, after) == 2 * len(COUNTED)
    assert verify(open_savepoint(canonical)) == []
    place.write(event("17", "late"))
    run_from(counting(place, *after), canonical)  # as a supervisor starts it again: from what it has written itself
    assert ("late", 2) in place.table()


@pytest.mark.more
@pytest.mark.parametrize(
    ("before", "after"),
    [(("rocksdb", 2), ("rocksdb", 4)), (("rocksdb", 3), ("hashmap", 1)), (("hashmap", 2), ("rocksdb", 4))],
    ids=lambda form: f"{form[0]}{form[1]}",
)
def test_every_kind_of_state_goes_on_from_its_rows(place: Place, before: tuple[str, int], after: tuple[str, int]):
    place.write(*(event("01", word) for word in KINDS))
    native, canonical = both(place, every_kind(place, *before))
    place.write(*(event(second, word) for word in KINDS for second in ("01", "04")))
    run_from(every_kind(place, *after), canonical)
    assert compare_state(place, native, after) > 5 * len(KINDS)
    assert out(place, "total") == [(8,), (24,)]
    assert out(place, "by-hand") == sorted((word, n) for word in KINDS for n in (1, 3))
    assert [row for row in out(place, "pairs") if row[1:] == ("04",)] == sorted([(word, "04") for word in KINDS] * 2)


@pytest.mark.more
def test_custom_state_has_a_table_for_each_variable_and_goes_on_in_other_partitions(place: Place):
    """Nothing is left of the first job, whose folder Spark's metadata names."""

    def job(partitions: str) -> Job:
        wanted = place.job(state_backend="rocksdb", parallelism=partitions)
        by_word = place.words(wanted).groupBy("word")
        counted = by_word.transformWithStateInPandas(CountingProcessor(), "word string, n long", "Update", "None")
        table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
        wanted.query("query", counted, mode="update", sinks=[table])
        return wanted

    place.write("sea", "sea", "wind")
    native, canonical = both(place, job("2"))
    shutil.rmtree(place.checkpoints)
    moved = canonical.rename(place.folder / "moved")
    (table,) = read_savepoint(moved).tables
    assert table.store == "seen"
    assert sum(compare(native, moved).values()) == 2
    rows = read_savepoint(moved).state_arrow("query", store="seen").to_table().to_pylist()
    assert {row["key"]["word"]: row["value"]["n"] for row in rows} == {"sea": 2, "wind": 1}
    place.write("sea")
    run_from(job("3"), Restore(str(moved), claim=True))
    assert place.table() == [("sea", 3), ("wind", 1)]
    assert verify(open_savepoint(moved)) == []
