"""What a started job leaves in its folder so that its sinks can be reached without its program: *sinks.json*.

Written anew at each start, by the driver; a file for the living, which may be lost: the next start writes it again.
No secret is in it. An option whose value names an environment variable or a file (`env:NAME`, `file:PATH`) is kept as
it is; one that may hold a secret itself is left out, by its name, and whoever needs the sink is asked for it.

The sinks themselves are loaded when one of their kind is opened or described: a command that finds none does not wait
for the clients of all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.redaction import may_be_secret
from tidegate.disk.storage import Storage
from tidegate.sinks.base import TwoPhaseSink

SINKS = "sinks.json"
FORMAT = 1
"""The format that this release writes; a newer one is not read."""


class KafkaTarget(msgspec.Struct, frozen=True, kw_only=True, tag="kafka"):
    """A `KafkaSink`. `left_out`: the names of the options that may hold secrets."""

    servers: str
    topic: str | None
    key: str | None
    value: tuple[str, ...]
    headers: str | None
    partition: str | None
    format: str
    prefix: str
    transaction_timeout: float | None
    options: dict[str, str]
    left_out: tuple[str, ...] = ()
    invalid_text: str = "refuse"

    def __str__(self) -> str:
        return f"Kafka {self.servers}, {'topics by row' if self.topic is None else f'topic {self.topic}'}"


class SQLiteTarget(msgspec.Struct, frozen=True, kw_only=True, tag="sqlite"):
    """A `SQLiteSink`."""

    path: str
    table: str
    key: tuple[str, ...]
    invalid_text: str = "refuse"
    nan: str = "refuse"
    on_conflict: str = "fail"
    conflicts_into: str | None = None

    def __str__(self) -> str:
        return f"SQLite {self.path}, table {self.table}"


class FilesTarget(msgspec.Struct, frozen=True, kw_only=True, tag="files"):
    """A `FileSink`; what is staged says itself in which format it is."""

    path: str

    def __str__(self) -> str:
        return f"files in {self.path}"


class OtherTarget(msgspec.Struct, frozen=True, kw_only=True, tag="other"):
    """A sink that only the program can open: a function, a console, one of the user's own."""

    what: str

    def __str__(self) -> str:
        return self.what


Target: TypeAlias = KafkaTarget | SQLiteTarget | FilesTarget | OtherTarget


class DescribedSink(msgspec.Struct, frozen=True, kw_only=True):
    """One sink of a query. `keeps_evidence`: whether its target can be compared with the ledger."""

    query: str
    uid: str
    level: Level
    keeps_evidence: bool
    target: Target


class _Sinks(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    interval_seconds: float
    sinks: tuple[DescribedSink, ...]


class _Version(msgspec.Struct, frozen=True):
    format: int


# --- written by the driver ---------------------------------------------------------------------------------


def describe(query: str, sink: TwoPhaseSink, level: Level) -> DescribedSink:
    """A sink as `open_sink` makes it again; of a subclass nothing is known but that the program can open it."""
    return DescribedSink(
        query=query,
        uid=sink.uid,
        level=level,
        keeps_evidence=sink.remembers and level is not Level.AT_LEAST_ONCE,
        target=_target_of(sink),
    )


def write_sinks(storage: Storage, sinks: Sequence[DescribedSink], interval_seconds: float) -> None:
    """Put *sinks.json* into the job's folder, in the place of an older one."""
    found = _Sinks(format=FORMAT, interval_seconds=interval_seconds, sinks=tuple(sinks))
    storage.replace(SINKS, msgspec.json.encode(found))


def _target_of(sink: TwoPhaseSink) -> Target:
    """By the very class: what a subclass has changed does not stand in its options."""
    from tidegate.sinks.files.sink import FileSink
    from tidegate.sinks.kafka.sink import KafkaSink
    from tidegate.sinks.sqlite.sink import SQLiteSink

    match sink:
        case KafkaSink() if type(sink) is KafkaSink:
            kept = {name: value for name, value in sink.clients.options.items() if _may_be_shown(name, value)}
            return KafkaTarget(
                servers=sink.clients.servers,
                topic=sink.topic,
                key=sink.key,
                value=sink.value,
                headers=sink.headers,
                partition=sink.partition,
                format=sink.format,
                prefix=sink.prefix,
                transaction_timeout=sink.transaction_timeout,
                options=kept,
                left_out=tuple(sorted(sink.clients.options.keys() - kept.keys())),
                invalid_text=sink.invalid_text.value,
            )
        case SQLiteSink() if type(sink) is SQLiteSink:
            return SQLiteTarget(
                path=str(sink.path),
                table=sink.table,
                key=sink.key,
                invalid_text=sink.rules.invalid_text.value,
                nan=sink.rules.nan.value,
                on_conflict=sink.on_conflict.value,
                conflicts_into=sink.conflicts_into,
            )
        case FileSink() if type(sink) is FileSink:
            return FilesTarget(path=str(sink.path))
        case _:
            return OtherTarget(what=type(sink).__name__)


def _may_be_shown(name: str, value: str) -> bool:
    """Of logins and TLS only what is known to be no secret; of the rest what does not sound like one."""
    if value.startswith(("env:", "file:")):
        return True
    if name.startswith(_OF_A_LOGIN):
        from tidegate.kafka.wire import CONNECTS

        return name in CONNECTS and not may_be_secret(name)
    return not may_be_secret(name)


_OF_A_LOGIN = ("sasl.", "ssl.", "enable.sasl.", "enable.ssl.")


# --- read without the program ------------------------------------------------------------------------------


class Sinks:
    """The sinks of a job as its last start described them; none where it has not been started since they are."""

    def __init__(self, storage: Storage) -> None:
        data = storage.read(SINKS)
        found = _decoded(data) if data is not None else _Sinks(format=FORMAT, interval_seconds=0.0, sinks=())
        self.interval_seconds = found.interval_seconds
        self._sinks = {(each.query, each.uid): each for each in found.sinks}

    def all(self) -> list[DescribedSink]:
        return list(self._sinks.values())

    def get(self, query: str, uid: str) -> DescribedSink | None:
        return self._sinks.get((query, uid))


def open_sink(described: DescribedSink, options: Mapping[str, str]) -> TwoPhaseSink:
    """The sink, for everything that a driver asks of it. `options` are put in for what was left out.

    Raises SINK_OUT_OF_REACH where only the program can open it, OPTION_UNREADABLE where an option is still missing.
    """
    match described.target:
        case KafkaTarget() as target:
            from tidegate.sinks.kafka.sink import KafkaSink

            return KafkaSink(
                described.uid,
                target.servers,
                topic=target.topic,
                key=target.key,
                value=target.value,
                headers=target.headers,
                partition=target.partition,
                format=target.format,
                invalid_text=target.invalid_text,
                transactional_id_prefix=target.prefix,
                transaction_timeout=target.transaction_timeout,
                options={**target.options, **_put_in(described, target, options)},
                delivery=described.level.value,
            )
        case SQLiteTarget() as target:
            from tidegate.sinks.sqlite.sink import SQLiteSink

            table = SQLiteSink(
                described.uid,
                target.path,
                table=target.table,
                key=target.key,
                invalid_text=target.invalid_text,
                nan=target.nan,
                on_conflict=target.on_conflict,
                delivery=described.level.value,
            )
            table.conflicts_into = target.conflicts_into
            return table
        case FilesTarget(path=path):
            from tidegate.sinks.files.sink import FileSink

            return FileSink(described.uid, path, delivery=described.level.value)
        case OtherTarget(what=what):
            raise TidegateError(
                Code.SINK_OUT_OF_REACH,
                expected="a Kafka, SQLite or file sink, which a command can open by itself",
                found=f"{what}, which only the job's program can",
                where=f"query {described.query}, sink {described.uid}",
                next_step="start the job instead: it first commits what is decided and gives up the rest",
            )


def _put_in(described: DescribedSink, target: KafkaTarget, options: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in target.left_out if name not in options]
    if missing:
        asked = " ".join(f"--option {name}=env:NAME" for name in missing)
        raise TidegateError(
            Code.OPTION_UNREADABLE,
            expected=f"a value for {', '.join(missing)}: the program has it in itself, and secrets are written nowhere",
            found="none",
            where=f"query {described.query}, sink {described.uid}",
            next_step=f"give {asked} (or =file:PATH), or start the job instead",
        )
    return {name: options[name] for name in target.left_out}


def _decoded(data: bytes) -> _Sinks:
    try:
        version = msgspec.json.decode(data, type=_Version).format
        if version <= FORMAT:
            return msgspec.json.decode(data, type=_Sinks)
        found = f"format {version}"
    except msgspec.DecodeError as error:
        found = str(error)
    raise TidegateError(
        Code.SINK_OUT_OF_REACH,
        expected=f"descriptions of the sinks in format {FORMAT}",
        found=found,
        where=SINKS,
        next_step="use the release of tidegate that started the job last, or start the job with this one",
    )
