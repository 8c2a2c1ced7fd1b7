"""Checks if the sources and sinks of a query can resume where the savepoint ends, and reports their changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery
from tidegate.core.spark_log import log_offset
from tidegate.savepoints.refusals import map_option
from tidegate.savepoints.restoring import Restore, Scope
from tidegate.savepoints.restoring_program import Program, ProgramQuery
from tidegate.savepoints.state_change import refusals, state_change


def places_of(sources: Sequence[str], saved: SavedQuery, wish: Restore) -> tuple[int | None, ...]:
    """By position in the program's query, the position of the same source in the savepoint; None for one that begins
    again. A source that a query reads twice, for example in a join with itself, occurs twice.
    """
    if wish.scope is Scope.STATE_ONLY:
        return tuple(None for _ in sources)
    left = dict(enumerate(wish.renamed.get(uid, uid) for uid in saved.done.sources))
    places: list[int | None] = []
    for uid in sources:
        place = next((place for place, before in left.items() if before == uid), None)
        if place is not None:
            del left[place]
        places.append(place)
    return tuple(places)


def sources_told(query: ProgramQuery, saved: SavedQuery, wish: Restore) -> Iterator[str]:
    """Yield a message for each source that does not simply resume from the savepoint's position."""
    if wish.scope is Scope.STATE_ONLY:
        yield f"query {query.uid}: its sources begin where the program says, whatever its state has of their rows"
        return
    for uid in _read_no_more(query, saved, wish):
        yield f"query {query.uid}: source {uid} is no longer read"
    for uid, place in zip(query.sources, places_of(query.sources, saved, wish), strict=True):
        if place is None:
            yield f"query {query.uid}: source {uid} is new, and begins where the program says"


def _read_no_more(query: ProgramQuery, saved: SavedQuery, wish: Restore) -> list[str]:
    before = [wish.renamed.get(uid, uid) for uid in saved.done.sources]
    return [uid for uid in before if uid not in query.sources]


def sinks_told(query: ProgramQuery, saved: SavedQuery, wish: Restore) -> Iterator[str]:
    """The messages about added and removed sinks."""
    before = [wish.renamed.get(uid, uid) for uid in saved.done.sinks]
    first = 1 if wish.scope is Scope.OFFSETS_ONLY else saved.done.epoch + 1
    for uid in before:
        if uid not in query.sinks:
            yield f"query {query.uid}: sink {uid} gets no more rows"
    for uid in query.sinks:
        if uid not in before:
            yield f"query {query.uid}: sink {uid} is new, and gets rows from epoch {first} on"


def query_errors(query: ProgramQuery, saved: SavedQuery, program: Program, wish: Restore) -> Iterator[TidegateError]:
    """The errors of a query that resumes from the saved one: its sources, and the form of its state."""
    where = f"job {program.name}, query {query.uid}"
    gone = [] if wish.scope is Scope.STATE_ONLY else _read_no_more(query, saved, wish)
    if gone and not wish.allows_to_leave(saved.done.query):
        expected = f"the savepoint's sources in the query: {', '.join(gone)}"
        yield _sources_changed(expected, ", ".join(query.sources), where, _source_option(query, saved, wish))
    yield from _read_more_often(query, saved, wish, where)
    yield from _kinds_changed(query, saved, wish, where)
    yield from _logs_unclear(query, saved, wish, where)
    if wish.scope is not Scope.OFFSETS_ONLY:
        change = state_change(saved, program.backend, program.partitions)
        yield from refusals(saved, program.backend, program.partitions, change, where)
    if saved.watermark_ms >= END_OF_TIME_MS:
        yield TidegateError(
            Code.JOB_DRAINED,
            expected="a savepoint that a job can resume from",
            found="one of a drained query: its watermark is at the end of time, and every new row is too late",
            where=where,
            next_step="take a savepoint before the drain; or start the job under another name, where it begins anew",
        )


def _source_option(query: ProgramQuery, saved: SavedQuery, wish: Restore) -> str:
    after = {uid: wish.renamed.get(uid, uid) for uid in saved.done.sources}
    missing = [uid for uid, name in after.items() if name not in query.sources]
    new = [uid for uid in dict.fromkeys(query.sources) if uid not in after.values()]
    return map_option(missing, new)


def _read_more_often(query: ProgramQuery, saved: SavedQuery, wish: Restore, where: str) -> Iterator[TidegateError]:
    """A stream that a plan reads twice is one source for Spark or two, depending on the plan. If it is one, it cannot
    resume in one place and begin again in the other.
    """
    if wish.scope is Scope.STATE_ONLY:
        return
    before = [wish.renamed.get(uid, uid) for uid in saved.done.sources]
    for uid in dict.fromkeys(query.sources):
        if 0 < before.count(uid) < query.sources.count(uid):
            yield TidegateError(
                Code.SOURCES_CHANGED,
                expected=f"source {uid} to be read as often as in the savepoint: {before.count(uid)}",
                found=f"it is read {query.sources.count(uid)} times",
                where=where,
                next_step=f'read the same input a second time as a source of its own: job.source("{uid}-again", ...)',
            )


def _kinds_changed(query: ProgramQuery, saved: SavedQuery, wish: Restore, where: str) -> Iterator[TidegateError]:
    """Yield an error for each source whose kind has changed: Spark would misread its position or fail in the first
    epoch.
    """
    places = places_of(query.sources, saved, wish)
    for uid, place, files in zip(query.sources, places, query.reads_files, strict=True):
        position = None if place is None else saved.ends[saved.done.sources[place]]
        if position is not None and files != (log_offset(position) is not None):
            now = "files" if files else "something else than files"
            yield _sources_changed(f"source {uid} to be what it was, at {position}", f"one that reads {now}", where)


def _logs_unclear(query: ProgramQuery, saved: SavedQuery, wish: Restore, where: str) -> Iterator[TidegateError]:
    """Spark's file source keeps a log of the files that it has read, under its number. The number is its place if each
    source occurs once in the query. A stream that is read twice is one source for Spark or two, depending on the plan.
    Then the numbers of later sources are unknown, and with a wrong log they would read all files again.
    """
    places = places_of(query.sources, saved, wish)
    clear_before, clear_now = _each_once(saved.done.sources), _each_once(query.sources)
    for now, (uid, place, files) in enumerate(zip(query.sources, places, query.reads_files, strict=True)):
        if not files or place is None or (place < clear_before and now < clear_now):
            continue
        if places[: now + 1] != tuple(range(now + 1)):
            expected = f"source {uid} before one that is read twice, or all where they were"
            yield _sources_changed(expected, "it is behind one that is read twice", where)


def _each_once(uids: Sequence[str]) -> int:
    """The number of new ones before the first that existed already."""
    return next((number for number, uid in enumerate(uids) if uid in uids[:number]), len(uids))


def _sources_changed(expected: str, found: str, where: str, option: str = "--map OLD=NEW") -> TidegateError:
    return TidegateError(
        Code.SOURCES_CHANGED,
        expected=expected,
        found=found,
        where=where,
        next_step=f"put the sources back as they were; where only a uid is another one: {option}; to give one up: "
        "--allow-non-restored-state",
    )
