"""A canonical savepoint has tables in the place of Spark's files of state, and all else that a native one has."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.saved_job import query_folder, write, write_job
from tests.support.saving import code_of
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedQuery, SavepointFormat
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.folder import Savepoint, savepoints_in, verify
from tidegate.savepoints.running_job import OpenTables, RunningJob, WriteTable
from tidegate.savepoints.state_tables import StateTable
from tidegate.savepoints.take import HELD, check_form, take, take_last

CANONICAL = SavepointFormat.CANONICAL


@contextmanager
def open_rows(saved: SavedQuery, checkpoint: Path, copying: Copying) -> Generator[WriteTable]:
    """As Spark does: from the state of the saved epoch."""

    def write_rows(table: StateTable, folder: Path) -> None:
        folder.mkdir()
        state = checkpoint / f"state/0/0/{saved.done.epoch + 1}.delta"
        (folder / "part-00000.parquet").write_text(f"{table}: {state.read_text()}")

    yield write_rows


def running(folder: Path, open_tables: OpenTables | None = open_rows) -> RunningJob:
    return replace(write_job(folder / "job"), open_tables=open_tables)


def test_it_has_tables_where_a_native_one_has_state_and_all_else_that_one_has(tmp_path: Path):
    job = running(tmp_path)
    native = {file.name: file for file in take(job, "native", tmp_path / "saved").record.files}
    copying = Copying()
    savepoint = take(job, "one", tmp_path / "saved", copying, CANONICAL)
    files = {file.name: file for file in savepoint.record.files}
    state = {name for name in native if name.endswith(".delta")}
    table = "queries/query/state/0/default/part-00000.parquet"
    assert files.keys() == native.keys() - state | {table}
    assert all(files[name] == native[name] for name in files.keys() - {table})
    assert (savepoint.folder / table).read_text() == "operator 0 (stateStoreSave) default: state 4"
    assert (savepoint.record.format, verify(savepoint)) == (CANONICAL, [])
    assert (copying.copied_bytes, copying.total_bytes) == (sum(file.size_bytes for file in native.values()),) * 2


def test_an_id_stands_for_one_form(tmp_path: Path):
    job = running(tmp_path)
    first = take(job, "one", tmp_path / "saved", form=CANONICAL)
    assert take(job, "one", tmp_path / "saved", form=CANONICAL) == first
    assert code_of(lambda: take(job, "one", tmp_path / "saved")) == "TG-SAVEPOINT-REFUSED"
    assert verify(first) == []


@pytest.mark.parametrize("act", [take, take_last])
def test_one_that_is_called_off_among_its_rows_is_not_there(tmp_path: Path, act: Callable[..., Savepoint]):
    @contextmanager
    def failing(saved: SavedQuery, checkpoint: Path, copying: Copying) -> Generator[WriteTable]:
        with open_rows(saved, checkpoint, copying) as write_rows:

            def fail(table: StateTable, folder: Path) -> None:
                write_rows(table, folder)
                copying.call_off("the job is STOPPED")
                copying.go_on()

            yield fail

    job = running(tmp_path, open_tables=failing)
    assert code_of(lambda: act(job, "one", tmp_path / "saved", None, CANONICAL)) == "TG-SAVEPOINT-CUT-OFF"
    assert savepoints_in(tmp_path / "saved") == ([], [])
    assert list((tmp_path / "saved").iterdir()) == []
    assert not (tmp_path / "job" / HELD).exists()


@pytest.mark.parametrize(
    ("operator", "opens", "found"),
    [("stateStoreSave", None, "one that has ended"), ("globalLimit", open_rows, "operator 0 (globalLimit)")],
)
def test_where_no_spark_runs_and_where_state_has_no_rows_it_is_refused_beforehand(
    tmp_path: Path, operator: str, opens: OpenTables | None, found: str
):
    job = running(tmp_path, open_tables=opens)
    metadata = "spark/state/0/_metadata/metadata"
    before = (query_folder(tmp_path / "job") / metadata).read_text()
    write(tmp_path / "job", metadata, before.replace("stateStoreSave", operator))
    for refused in (lambda: check_form(job, CANONICAL), lambda: take(job, "one", tmp_path / "saved", form=CANONICAL)):
        with pytest.raises(TidegateError) as caught:
            refused()
        assert (caught.value.code, found in caught.value.found) == ("TG-SAVEPOINT-REFUSED", True)
        assert "--type native" in caught.value.next_step
    assert list((tmp_path / "saved").iterdir()) == []
    assert verify(take(job, "one", tmp_path / "saved")) == []
