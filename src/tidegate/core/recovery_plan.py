"""The changes that recovery must make in Spark's log: a pure function of its findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.ledger import COMMITS, OFFSETS, SOURCES, entry
from tidegate.core.records import Decided
from tidegate.core.spark_log import (
    OffsetsEntry,
    goes_back,
    is_entry_of_spark,
    is_whole_source_entry,
    list_name,
    log_offset,
    parse_commits,
    parse_offsets,
    source_entry,
    with_watermark,
)


def plan_recovery(found: FoundLog) -> list[RecoveryStep]:
    """The changes after which Spark's log shows the decisions, and nothing else.

    Every decided epoch's entries equal the decision, byte for byte. These entries are set aside: those beyond the
    newest decided epoch plus one (after a power loss Spark would skip an epoch with only a warning), torn entries, and
    an entry that goes back, has a later watermark than the newest decided epoch leads to, or refers to a torn or
    missing entry of a file source's own log. A due no-data epoch is added: Spark forgets it at a restart, and with it
    the last windows.
    """
    plan: list[RecoveryStep] = []
    for epoch, decided in sorted(found.decided.items()):
        for folder, right in ((OFFSETS, decided.offsets), (COMMITS, decided.commits)):
            if found.log[folder].get(epoch) != right:
                plan.append(RestoreEntry(entry(folder, epoch), right))
    offsets, commits = found.log[OFFSETS], found.log[COMMITS]
    beyond = {epoch for epoch in offsets if epoch > found.newest + 1}
    broken = _broken_sources(found)
    if found.newest + 1 in offsets and not _follows(found, offsets[found.newest + 1], broken):
        beyond.add(found.newest + 1)
    plan.extend(
        PutAside(entry(folder, epoch), found.log[folder][epoch])
        for folder, undecided in ((OFFSETS, beyond), (COMMITS, {epoch for epoch in commits if epoch > found.newest}))
        for epoch in sorted(undecided, reverse=True)
    )
    plan.extend(  # after the offsets that refer to them
        PutAside(f"{source_log(source)}/{name}", data)
        for source, first in broken.items()
        for name, data in found.sources[source].items()
        if is_entry_of_spark(name) and (source_entry(name) or 0) >= first
    )
    newest = found.decided.get(found.newest)
    if newest is not None and (found.newest + 1 not in offsets or found.newest + 1 in beyond):
        plan.extend(due_epoch(newest))
    return plan


@dataclass(frozen=True, slots=True)
class FoundLog:
    """The findings of recovery: the newest decided epoch, the stored decisions, Spark's log by folder.

    `sources`: by the place of a source, the undecided entries of its own log (a file source's) by name. `places`: the
    number of sources of the query; None if it is not compared.
    """

    newest: int
    decided: Mapping[int, Decided]
    log: Mapping[str, Mapping[int, bytes]]
    sources: Mapping[int, Mapping[str, bytes]] = field(default_factory=dict[int, Mapping[str, bytes]])
    places: int | None = None


@dataclass(frozen=True, slots=True)
class RestoreEntry:
    """Make an entry equal to the decision."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PutAside:
    """Rename an undecided entry that held `seen`. If another entry is there by then, it is put back."""

    name: str
    seen: bytes


@dataclass(frozen=True, slots=True)
class AddDueEpoch:
    """Write the offsets entry of a no-data epoch that Spark has forgotten."""

    epoch: int
    data: bytes
    watermark_ms: int


RecoveryStep: TypeAlias = RestoreEntry | PutAside | AddDueEpoch


def _follows(found: FoundLog, following: bytes, broken: Mapping[int, int]) -> bool:
    offsets = parse_offsets(following)
    if offsets is None or found.places not in (None, len(offsets.positions)):
        return False
    if any(_names(offsets, source, first) for source, first in broken.items()):
        return False
    newest = found.decided.get(found.newest)
    before = None if newest is None else parse_offsets(newest.offsets)
    if newest is None or before is None:
        return True
    same_sources = len(before.positions) == len(offsets.positions)
    goes_on = same_sources and not any(map(goes_back, before.positions, offsets.positions))
    return goes_on and _leads_to(newest, offsets)


def _leads_to(newest: Decided, following: OffsetsEntry) -> bool:
    """False if the watermark is of a run that has computed the newest decided epoch with more input: rows that come
    again would be too late. The last epoch of a drain has a watermark of its own.
    """
    logged = parse_commits(newest.commits)
    return logged is None or not logged.next_watermark_ms < following.watermark_ms < END_OF_TIME_MS


def _names(offsets: OffsetsEntry, source: int, first: int) -> bool:
    """True if an offsets entry needs the entry `first` of a source's own log, or a later one."""
    position = position_of(offsets, source)
    reached = log_offset(position)
    return position is not None and (reached is None or reached >= first)


def _broken_sources(found: FoundLog) -> dict[int, int]:
    """By source, the first undecided entry of its own log that is torn, or missing below another one.

    Spark does not sync these entries, and refuses to start without them. Entries below it were made durable with the
    decided epoch that names them. Entries above it list files that were found later; they are set aside too, and Spark
    lists the files again. Of tidegate's lists only the one counts that a position names: no other is ever read.
    """
    broken: dict[int, int] = {}
    following = parse_offsets(found.log[OFFSETS].get(found.newest + 1))
    for source, entries in found.sources.items():
        position = position_of(following, source)
        named, own_list = log_offset(position), list_name(position)
        numbered = {
            number: data
            for name, data in entries.items()
            if (number := source_entry(name)) is not None
            and (is_entry_of_spark(name) if own_list is None else name == own_list)
        }
        newest = max([-1 if named is None else named, *numbered])
        for number in range(_decided_log_offset(found, source) + 1, newest + 1):
            if number not in numbered or not is_whole_source_entry(numbered[number]):
                broken[source] = number
                break
    return broken


def _decided_log_offset(found: FoundLog, source: int) -> int:
    newest = found.decided.get(found.newest)
    before = None if newest is None else parse_offsets(newest.offsets)
    reached = log_offset(position_of(before, source))
    return -1 if reached is None else reached


def position_of(offsets: OffsetsEntry | None, source: int) -> str | None:
    """The end of a source in an offsets entry; None without an entry, or if it names fewer sources."""
    return None if offsets is None or source >= len(offsets.positions) else offsets.positions[source]


def source_log(source: int) -> str:
    """The folder in which Spark keeps the log of a source."""
    return f"{SOURCES}/{source}"


def due_epoch(newest: Decided) -> list[RecoveryStep]:
    """The no-data epoch that follows the newest decided one, if its watermark has advanced."""
    commits, offsets = parse_commits(newest.commits), parse_offsets(newest.offsets)
    if commits is None or offsets is None or commits.next_watermark_ms <= offsets.watermark_ms:
        return []
    data = with_watermark(newest.offsets, commits.next_watermark_ms)
    return [AddDueEpoch(newest.epoch + 1, data, commits.next_watermark_ms)]
