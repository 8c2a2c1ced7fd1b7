"""The Iceberg sink: drivers that pause, answers that are lost, other writers, files that are removed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table

from tests.support.iceberg import catalog_in, ids_of, ids_of_task, opened, other_rows, other_writer, sink_in
from tests.support.staged import committed, ids_from, of_attempt, outcome, plan, staged
from tidegate.core.records import Answer, Committable, Evidence, Outcome
from tidegate.sinks import table_commits
from tidegate.sinks.iceberg import committer
from tidegate.sinks.iceberg.place import CataloguedTable
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.testing.contract import IDENTITY, attempt_of, rows_from


@pytest.fixture
def sink(tmp_path: Path) -> IcebergSink:
    return sink_in(tmp_path)


class Paused:
    """A driver that commits in a thread of its own, and stands still right before it asks the catalog."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._answers: list[Answer] = []
        self._thread: threading.Thread | None = None
        original: Callable[..., None] = CataloguedTable.commit

        def stand_still(place: CataloguedTable, *arguments: Any) -> None:
            if threading.current_thread() is self._thread and not self._reached.is_set():
                self._reached.set()
                assert self._go_on.wait(60)
            original(place, *arguments)

        patch.setattr(CataloguedTable, "commit", stand_still)

    def begin(self, sink: IcebergSink, *committables: Committable) -> None:
        self._thread = threading.Thread(target=lambda: self._answers.extend(sink.commit(committables)))
        self._thread.start()
        assert self._reached.wait(60)

    def resume(self) -> Outcome:
        assert self._thread is not None
        self._go_on.set()
        self._thread.join(60)
        (found,) = {answer.outcome for answer in self._answers}
        return found


# --- drivers that pause ----------------------------------------------------------------------------------------


def test_a_driver_that_was_paused_before_its_commit_does_not_commit_twice(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's own commit would try again behind the conflict, and append the rows a second time."""
    committable, paused = staged(sink), Paused(monkeypatch)
    paused.begin(sink, committable)
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert paused.resume() is Outcome.ALREADY
    assert ids_of(tmp_path) == ids_from(0)


@pytest.mark.parametrize(("epoch", "generation"), [(6, 1), (0, 2)])
def test_a_driver_that_was_paused_commits_nothing_behind_a_later_epoch(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int, generation: int
) -> None:
    old, new = staged(sink, 5), staged(sink, epoch, generation)
    paused = Paused(monkeypatch)
    paused.begin(sink, old)
    assert outcome(sink, new) is Outcome.COMMITTED
    assert paused.resume() is Outcome.UNKNOWN
    assert ids_of(tmp_path) == ids_from(epoch)
    assert sink.evidence(old) is Evidence.UNKNOWN


def test_a_second_timeline_that_was_paused_is_noticed(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = staged(sink), of_attempt(sink, attempt_of(run=2), rows_from(10, 2))
    paused = Paused(monkeypatch)
    paused.begin(sink, other)
    assert outcome(sink, mine) is Outcome.COMMITTED
    assert paused.resume() is Outcome.UNKNOWN
    assert sink.evidence(other) is Evidence.OTHER
    assert ids_of(tmp_path) == ids_from(0)


def test_drivers_that_open_a_missing_table_at_once_find_one_table(tmp_path: Path) -> None:
    catalog_in(tmp_path).create_namespace("other")  # the tables of the catalog's own database exist
    errors: list[BaseException] = []

    def opened_once() -> None:
        try:
            sink_in(tmp_path).open(plan())
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=opened_once) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert errors == []
    assert opened(tmp_path).metadata.snapshots == []


@pytest.mark.parametrize("error", [CommitStateUnknownException("who knows"), OSError("the connection broke")])
def test_an_answer_that_is_lost_is_found_by_its_evidence(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    committable, original = staged(sink), cast("Any", Table)._do_commit

    def lost(table: Table, *arguments: Any, **named: Any) -> None:
        original(table, *arguments, **named)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Table, "_do_commit", lost)
        assert outcome(sink, committable) is Outcome.RETRY
    assert sink.evidence(committable) is Evidence.PRESENT
    assert outcome(sink, committable) is Outcome.ALREADY
    assert ids_of(tmp_path) == ids_from(0)


def test_a_conflict_that_was_none_is_found_by_its_evidence(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that repeats a request by itself hears of a conflict with its own first request."""
    committable, original = staged(sink), cast("Any", Table)._do_commit

    def repeated(table: Table, *arguments: Any, **named: Any) -> None:
        original(table, *arguments, **named)
        raise CommitFailedException("main is not as required")

    monkeypatch.setattr(Table, "_do_commit", repeated)
    assert outcome(sink, committable) is Outcome.ALREADY
    assert ids_of(tmp_path) == ids_from(0)


def test_rows_of_a_level_without_evidence_are_not_repeated_by_a_lost_answer(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committable, original = staged(sink), cast("Any", Table)._do_commit

    def lost(table: Table, *arguments: Any, **named: Any) -> None:
        original(table, *arguments, **named)
        raise OSError("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(Table, "_do_commit", lost)
        assert [each.outcome for each in sink.commit_straight([committable])] == [Outcome.RETRY]
    assert [each.outcome for each in sink.commit_straight([committable])] == [Outcome.COMMITTED]
    assert ids_of(tmp_path) == ids_from(0)
    assert sink.position(IDENTITY) is None


# --- other writers ---------------------------------------------------------------------------------------------


def test_another_writer_makes_a_commit_look_again_and_nothing_else(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committables, paused = [staged(sink, task=task) for task in range(2)], Paused(monkeypatch)
    paused.begin(sink, *committables)
    other_writer(tmp_path, [1])
    opened(tmp_path).delete("id == 1")
    other_writer(tmp_path, [2])
    assert paused.resume() is Outcome.COMMITTED
    assert ids_of(tmp_path) == sorted([2, *ids_of_task(0, 0), *ids_of_task(0, 1)])
    assert [sink.evidence(each) for each in committables] == [Evidence.PRESENT] * 2


def test_a_writer_that_is_always_faster_is_waited_for(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committable, original = staged(sink), cast("Any", CataloguedTable.commit)
    tries: list[int] = []

    def late(place: CataloguedTable, *arguments: Any) -> None:
        tries.append(len(tries))
        other_writer(tmp_path, [len(tries)])
        original(place, *arguments)

    monkeypatch.setattr(table_commits, "TRIES", 3)
    with monkeypatch.context() as patch:
        patch.setattr(CataloguedTable, "commit", late)
        (answer,) = sink.commit([committable])
    assert (answer.outcome, tries) == (Outcome.RETRY, [0, 1, 2])
    assert outcome(sink, committable) is Outcome.COMMITTED


def test_others_write_all_the_time_with_their_own_tries(sink: IcebergSink, tmp_path: Path) -> None:
    """The sink binds no other writer: it stores no property about tries."""
    sink.open(plan())
    end, written = threading.Event(), list[int]()
    errors: list[BaseException] = []

    def others() -> None:
        table = opened(tmp_path)
        while not end.wait(0.1):
            number = -1 - len(written)
            try:
                table.append(other_rows([number]))  # with a state that may be old: the library tries again
            except CommitFailedException:
                table = opened(tmp_path)
                continue
            except BaseException as error:  # noqa: BLE001
                errors.append(error)
                return
            written.append(number)

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for epoch in range(4):
            committables = [staged(sink, epoch, task=task) for task in range(2)]
            while outcome(sink, *committables) is Outcome.RETRY:
                pass
            sink.clean(IDENTITY, epoch)
    finally:
        end.set()
        thread.join(60)
    assert errors == []
    ids = ids_of(tmp_path)
    assert [each for each in ids if each >= 0] == sorted(
        number for epoch in range(4) for task in range(2) for number in ids_of_task(epoch, task)
    )
    assert [each for each in ids if each < 0] == sorted(written)
    assert [name for name in opened(tmp_path).properties if name.startswith("commit.")] == []


# --- files that are removed ------------------------------------------------------------------------------------


def remove_orphans(folder: Path) -> list[str]:
    """What Iceberg's `remove_orphan_files` removes if no file is young enough: each file below the table's location
    that no snapshot names, except below a name that begins with `_` or `.`
    """
    table = opened(folder)
    root = Path(table.location().removeprefix("file://"))
    named = {path.removeprefix("file://") for path in cast("list[str]", _paths(table))}
    found = [path for path in root.rglob("*") if path.is_file() and str(path) not in named]
    removed = [path for path in found if not any(part[0] in "._" for part in path.relative_to(root).parts)]
    for path in removed:
        path.unlink()
    return [str(path.relative_to(root)) for path in removed]


def _paths(table: Table) -> list[str]:
    found = [table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)]
    for snapshot in table.metadata.snapshots:
        found.append(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.append(manifest.manifest_path)
            found += [each.data_file.file_path for each in manifest.fetch_manifest_entry(table.io)]
    return found


@pytest.mark.parametrize("is_published", [False, True])
def test_a_removal_of_orphans_takes_nothing_that_an_epoch_needs(
    sink: IcebergSink, tmp_path: Path, is_published: bool
) -> None:
    """Staged files are in a hidden folder. A published file that no snapshot names yet is published again."""
    committed(sink, 0)
    committables = [staged(sink, 1, task=task) for task in range(2)]
    if is_published:
        committer.files_at(committables[0].handle["location"]).publish(committables)
    assert len(remove_orphans(tmp_path)) == (2 if is_published else 0)
    assert outcome(sink, *committables) is Outcome.COMMITTED
    assert ids_of(tmp_path) == [*ids_from(0), *ids_of_task(1, 0), *ids_of_task(1, 1)]


def test_a_staged_file_that_is_gone_is_told_and_nothing_of_the_epoch_is_added(
    sink: IcebergSink, tmp_path: Path
) -> None:
    committables = [staged(sink, task=task) for task in range(2)]
    (gone,) = tmp_path.rglob("*-t1-*.staged")
    gone.unlink()
    answers = sink.commit(committables)
    assert [answer.outcome for answer in answers] == [Outcome.RETRY, Outcome.LOST]
    assert gone.name in answers[1].detail
    assert [sink.evidence(each) for each in committables] == [Evidence.ABSENT] * 2
    assert ids_of(tmp_path) == []
