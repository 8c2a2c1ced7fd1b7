"""The descriptions of a job's sinks: *sinks.json* in the job's folder, so that commands can open the sinks without the
program.

The driver writes the file at each start. If it is lost, the next start writes it again. It holds no secret. An option
that names an environment variable or a file (`env:NAME`, `file:PATH`) is stored as it is. An option that may be a
secret itself is left out; only its name is stored, and a command that needs the sink requests the value.

The class of a sink is loaded when a sink of its kind is opened or described, so that a command without sinks does not
load all clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import UNFIT
from tidegate.core.levels import Level
from tidegate.operate.described import (
    FORMAT,
    OTHER,
    decode_descriptions,
    descriptions_of,
    left_out_options,
    through_json,
)
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.kinds import kind_of, sink_class
from tidegate.storages.storage import Storage

SINKS = "sinks.json"


class DescribedSink(msgspec.Struct, frozen=True, kw_only=True):
    """One sink of a query. `keeps_evidence`: true if its target can be compared with the ledger. `target`: its kind
    under `type`, and the sink's own description."""

    query: str
    uid: str
    level: Level
    keeps_evidence: bool
    target: dict[str, Any]

    @property
    def opens_without_the_program(self) -> bool:
        return self.target["type"] != OTHER

    @property
    def told(self) -> str:
        """The target in a few words: its kind, if this release does not understand the description."""
        if self.opens_without_the_program:
            with suppress(TidegateError, UNFIT, KeyError):
                return sink_class(self.target["type"]).told(self.target)
        return str(self.target.get("what", self.target["type"]))


class _SinksRecord(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    interval_seconds: float
    sinks: tuple[DescribedSink, ...]


_FORMAT = descriptions_of("sinks", _SinksRecord)


# --- written by the driver ---------------------------------------------------------------------------------


def describe(query: str, sink: TwoPhaseSink, level: Level) -> DescribedSink:
    """The description of a sink. `open_sink` makes the sink again from it; only the program can open a subclass."""
    return DescribedSink(
        query=query,
        uid=sink.uid,
        level=level,
        keeps_evidence=sink.remembers and level is not Level.AT_LEAST_ONCE,
        target=_target_of(sink),
    )


def write_sinks(storage: Storage, sinks: Sequence[DescribedSink], interval_seconds: float) -> None:
    """Write *sinks.json* into the job's folder. An older file is replaced.

    `interval_seconds`: the job's `checkpointing.interval`, stored for commands that check the sinks.
    """
    found = _SinksRecord(format=FORMAT, interval_seconds=interval_seconds, sinks=tuple(sinks))
    storage.replace(SINKS, _FORMAT.encode(found))


def _target_of(sink: TwoPhaseSink) -> dict[str, Any]:
    """The description of the sink's target, as *sinks.json* stores it.

    If exactly this class is registered for a kind: the kind, and the result of the sink's `describe`. For all other
    classes, also a subclass of a registered class: only the name of the class, because `describe` does not know what a
    subclass changes. The values are converted to JSON and back, so they equal values that were read from a file.
    """
    kind = kind_of(sink)
    found = {"type": kind, **sink.describe()} if kind else {"type": OTHER, "what": type(sink).__name__}
    return through_json(found)


# --- read without the program ------------------------------------------------------------------------------


class Sinks:
    """The sinks of a job as its last start described them; empty if no start has written *sinks.json*."""

    def __init__(self, storage: Storage) -> None:
        data = storage.read(SINKS)
        found = (
            decode_descriptions(data, _FORMAT, Code.SINK_OUT_OF_REACH, SINKS)
            if data is not None
            else _SinksRecord(format=FORMAT, interval_seconds=0.0, sinks=())
        )
        self.interval_seconds = found.interval_seconds
        self._sinks = {(each.query, each.uid): each for each in found.sinks}

    def all(self) -> list[DescribedSink]:
        return list(self._sinks.values())

    def get(self, query: str, uid: str) -> DescribedSink | None:
        return self._sinks.get((query, uid))


def open_sink(described: DescribedSink, options: Mapping[str, str]) -> TwoPhaseSink:
    """The sink, with all methods that a driver calls. `options`: values for options that the description leaves out.

    Raises SINK_OUT_OF_REACH if only the program can open the sink, OPTION_UNREADABLE if the value of an option is
    missing.
    """
    if not described.opens_without_the_program:
        raise needs_its_program(
            described, "start the job instead: it first commits all decided epochs and aborts the rest"
        )
    where = f"query {described.query}, sink {described.uid}"
    given = left_out_options(described.target, options, where, ", or start the job instead")
    opened = sink_class(described.target["type"])
    return opened.from_description(described.uid, described.target, given, described.level.value)


def needs_its_program(described: DescribedSink, next_step: str) -> TidegateError:
    """The error for a sink that only the program can open, and no command."""
    return TidegateError(
        Code.SINK_OUT_OF_REACH,
        expected="a sink that a command can open by itself, as those for Kafka, PostgreSQL, MySQL, Redis, SQLite and"
        " files",
        found=f"{described.told}, which only the job's program can",
        where=f"query {described.query}, sink {described.uid}",
        next_step=next_step,
    )


def not_described(
    query: str,
    sink: str,
    next_step: str = "start the job: it first commits all decided epochs and aborts the rest",
) -> TidegateError:
    """The error for a sink that is not in *sinks.json*, because no start of the job has described it."""
    return TidegateError(
        Code.SINK_OUT_OF_REACH,
        expected="a description of the sink, which every start of the job leaves in its folder",
        found="none",
        where=f"query {query}, sink {sink}",
        next_step=next_step,
    )
