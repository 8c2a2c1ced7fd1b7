"""Where tasks get files of their own, they read and write no others of a savepoint or a restore."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.place import Place, wait_until_finished
from tests.integration.test_restore import Counter, run_from
from tests.support.today import turn
from tidegate import Job, Restore, SQLiteSink, read_savepoint
from tidegate.savepoints.restoring import Scope
from tidegate.spark.restore_carried_out import _Carried
from tidegate.spark.task_files import TaskFiles
from tidegate.storages.schemes import Folder

WORDS = [f"word{number}" for number in range(6)]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were copied for tasks, as on a cluster, or that they have written."""
    found: list[str] = []
    files = TaskFiles(Folder.of(tmp_path / "reached"), found.append)
    monkeypatch.setattr(TaskFiles, "of", lambda *_: files)
    monkeypatch.setattr(_Carried, "_read", lambda *_: TaskFiles(None).read)  # the restored files are in no final place
    return found


def counting(place: Place, partitions: int) -> Job:
    """By Spark; by custom state, whose schemas have absolute paths; and of no word, so that no rows are recorded."""
    job = place.job(state_backend="rocksdb", parallelism=str(partitions))
    words = place.words(job)
    custom = words.groupBy("word").transformWithStateInPandas(Counter(), "word string, n long", "Update", "None")
    none = words.where("word = 'none'").groupBy("word").count()
    for uid, counted in (("query", words.groupBy("word").count()), ("custom", custom), ("none", none)):
        table = SQLiteSink(f"{uid}-table", place.folder / "out.db", table=f"by_{uid}", key="word")
        job.query(uid, counted, mode="update", sinks=[table])
    return job


@turn(0, of=2)
def test_state_is_written_as_rows_divided_counted_and_begun_empty_where_all_tasks_reach(
    place: Place, copied: list[str], tmp_path: Path
):
    place.write(*WORDS)
    handle = counting(place, 2).start()
    for query in range(3):
        wait_until_finished(handle, 0, query)
    canonical = handle.savepoint(place.folder / "saved", format="canonical")
    assert canonical is not None
    assert of(copied, "state/0/0/", "state/0/default/part-", "state/0/seen/part-")
    for query in ("query", "custom"):
        assert read_savepoint(canonical).state_arrow(query).to_table().num_rows == len(WORDS)

    copied.clear()
    native = handle.stop_with_savepoint(place.folder / "saved")
    place.write(*WORDS)
    run_from(counting(place, 3), Restore(str(native)))
    assert of(copied, "before/state/0/1/", "spark/state/0/2/", f"{native}/queries/none/spark/state/0/")
    assert place.table("by_query") == place.table("by_custom") == [(word, 2) for word in WORDS]

    copied.clear()
    run_from(counting(place, 2), Restore(str(native), scope=Scope.OFFSETS_ONLY, rewind="again"))
    assert of(copied, "empty.json", "spark/commits/0", "spark/state/0/1/")
    assert place.table("by_query") == place.table("by_custom") == [(word, 1) for word in WORDS]
    assert not (tmp_path / "reached").exists()


def of(copied: list[str], *names: str) -> bool:
    return all(any(name in path for path in copied) for name in names)
