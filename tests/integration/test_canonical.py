"""A canonical savepoint has the state as Parquet, for whoever reads it."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.place import Place, error_of, wait_until_finished
from tests.integration.test_read_savepoint import WORDS, two_counts
from tests.integration.test_restore import event
from tests.integration.test_state_change import KINDS, every_kind
from tidegate import FileSink, Job, read_savepoint
from tidegate.checkpoints.savepoint_folder import open_savepoint, savepoints_in, verify
from tidegate.checkpoints.spark_layout import is_state
from tidegate.core.records import SavepointFormat


def both(place: Place, job: Job) -> tuple[Path, Path]:
    """A native and a canonical savepoint of one epoch, the first."""
    handle = job.start()
    for query in range(len(handle.runs)):
        wait_until_finished(handle, 0, query)
    native = handle.savepoint(place.folder / "saved", id="native")
    canonical = handle.savepoint(place.folder / "saved", id="canonical", format="canonical")
    handle.stop()
    assert native is not None
    assert canonical is not None
    return native, canonical


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


def test_a_canonical_savepoint_has_every_row_of_a_native_one_for_whoever_reads_parquet(place: Place):
    place.write(*(event("01", word) for word in WORDS))
    native, canonical = both(place, two_counts(place))
    shutil.rmtree(place.checkpoints)
    assert compare(native, canonical) == {"dedupe": len(WORDS), "stateStoreSave": len(WORDS)}
    files = [path.relative_to(canonical / "queries/counts/spark").as_posix() for path in canonical.rglob("spark/*/**/*")]
    assert not [name for name in files if is_state(name) and (canonical / "queries/counts/spark" / name).is_file()]
    found = open_savepoint(canonical)
    assert (found.record.format, verify(found)) == (SavepointFormat.CANONICAL, [])
    (counts,) = [table.operator for table in read_savepoint(canonical).tables if table.kind == "stateStoreSave"]
    rows = read_savepoint(canonical).state_arrow("counts", operator=counts).to_table().to_pylist()
    assert {row["key"]["word"]: (row["value"]["sum"], row["value"]["sum_2"]) for row in rows} == dict.fromkeys(
        WORDS, (6, 2)
    )
    assert {row["key"]["window"]["start"].second for row in rows} == {0}
    assert error_of(lambda: read_savepoint(native).state_arrow("counts", operator=0)).code == "TG-STATE-TABLE"


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
