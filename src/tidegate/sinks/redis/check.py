"""The checks before a start of a Redis sink. They check everything, and create and change nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.keyed import keys_not_in_rows, unfit_mark
from tidegate.sinks.redis.declared import DeclaredRedisSink, RowFormat
from tidegate.sinks.redis.names import OWN
from tidegate.sinks.redis.server import RedisSession, unusable
from tidegate.sinks.redis.words import ERRORS
from tidegate.sinks.refusals import mark_without_key, without_key
from tidegate.sinks.value_table import Target, violations

OLDEST = (7, 0)
"""What the tests run. Valkey answers with the version of Redis that it is compatible with."""
BUCKETS = "buckets"
"""The field of a ledger with the number of buckets."""
_BUCKETS_AT_MOST = 16_384
"""As many as a cluster has slots."""
_COLUMNS_AT_MOST = 3_000
"""Lua hands over some 8,000 values at once, two for each column."""
_PREFIX = re.compile(r"[^\s{}]+")


def violations_of(sink: DeclaredRedisSink, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    check = _RedisCheck(sink, plan)
    return [*check.settings(), *check.rows(), *check.server()]


def server_violations_of(sink: DeclaredRedisSink, plan: SinkPlan) -> list[TidegateError]:
    """The violations that the server shows by itself. The rows of `plan` are not checked."""
    return list(_RedisCheck(sink, plan).server())


def worries_of(session: RedisSession) -> list[tuple[str, str]]:
    """What a server does with acknowledged writes that the table of guarantees does not allow: what, and what helps."""
    found = dict[str, str]()
    for client in session.primaries():
        found.update(_worries_of(client))
    return list(found.items())


class _RedisCheck:
    def __init__(self, sink: DeclaredRedisSink, plan: SinkPlan) -> None:
        self._sink = sink
        self._plan = plan
        self._columns = [field for field in fields_of(plan.schema) if field.name != sink.deleted]
        self._where = f"sink {sink.uid!r}: prefix {sink.names.prefix!r}, {sink.server}"

    def settings(self) -> Iterator[TidegateError]:
        sink = self._sink
        if not _PREFIX.fullmatch(sink.names.prefix):
            yield self._violation(
                Code.OPTION_UNKNOWN,
                "a prefix without spaces and braces, which mark the tag of a key",
                repr(sink.names.prefix),
                'for example prefix="orders"',
            )
        if sink.names.buckets is not None and not 1 <= sink.names.buckets <= _BUCKETS_AT_MOST:
            yield self._violation(
                Code.OPTION_UNKNOWN,
                f"1 to {_BUCKETS_AT_MOST} buckets",
                f"buckets={sink.names.buckets}",
                "four for each server of the cluster",
            )
        if sink.expire_seconds is not None and sink.expire_seconds <= 0:
            yield self._violation(
                Code.OPTION_UNKNOWN,
                "a positive time",
                f"expire={sink.expire_seconds}",
                "leave expire= out, so that rows stay; or give seconds or a timedelta",
            )
        if not sink.key:
            yield without_key(self._where)
        yield from keys_not_in_rows(sink.key, self._plan.schema, self._where)
        yield from self._mark()

    def _mark(self) -> Iterator[TidegateError]:
        deleted = self._sink.deleted
        if deleted is None:
            return
        if deleted in self._sink.key:
            yield mark_without_key(self._sink.key, deleted, self._where)
        yield from unfit_mark(deleted, self._plan.schema, self._where)

    def rows(self) -> Iterator[TidegateError]:
        target = Target.REDIS if self._sink.format is RowFormat.HASH else Target.JSON
        yield from violations(pa.schema(self._columns), target, self._where)
        keys = pa.schema([field for field in self._columns if field.name in self._sink.key])
        yield from violations(keys, Target.BYTES, f"{self._where}, key")
        names = [field.name for field in self._columns]
        if len(names) > _COLUMNS_AT_MOST:
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                f"at most {_COLUMNS_AT_MOST} columns",
                f"{len(names)}",
                'choose others in select=[...], or use format="json"',
            )
        for name, times in Counter(names).items():
            if times > 1 or name == OWN:
                yield self._violation(
                    Code.SCHEMA_MISMATCH,
                    f"column names that differ, and none that is {OWN!r}",
                    f"{times} columns named {name!r}" if times > 1 else repr(name),
                    "rename it with .alias(...) in select=[...]",
                )

    # --- what the server shows -----------------------------------------------------------------------------

    def server(self) -> Iterator[TidegateError]:
        found: list[TidegateError] = []
        try:
            with self._sink.server.connected() as session:
                for client in session.primaries():
                    found += self._server(client)
                if not found:
                    found += self._buckets(session)
        except ERRORS as error:
            found.append(unusable(error, self._sink.server, self._sink.uid))
        except TidegateError as error:
            found.append(error)
        yield from found

    def _server(self, client: Any) -> Iterator[TidegateError]:
        info = info_of(client)
        version = tuple(int(each) for each in info.get("redis_version", "0.0").split(".")[:2])
        if version < OLDEST:
            yield self._violation(
                Code.SINK_UNUSABLE,
                f"Redis {OLDEST[0]}.{OLDEST[1]} or newer, or Valkey",
                f"Redis {info.get('redis_version')}",
                "install a newer Redis, or Valkey",
            )
        if info.get("role") == "slave":
            yield self._violation(
                Code.SINK_UNUSABLE,
                "a primary of Redis",
                "a replica, which takes no rows",
                "give the host of the primary",
            )
        if info.get("cluster_enabled") == "1" and self._sink.names.buckets is None:
            yield self._violation(
                Code.SINK_UNUSABLE,
                "buckets=N for a cluster: a script reaches the keys of one slot",
                "no buckets, and a server of a cluster",
                "give buckets=, for example four for each server of the cluster: see docs/redis.md",
            )

    def _buckets(self, session: RedisSession) -> Iterator[TidegateError]:
        mine = self._sink.names.buckets
        held = None if mine is None else session.hash(self._sink.names.ledger(0)).get(BUCKETS)
        if held is not None and held != str(mine):
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                f"buckets={held}, as at the first start: another number would look for each key in another bucket",
                f"buckets={mine}",
                "put the number back, or give another prefix=",
            )

    def _violation(self, code: Code, expected: str, found: str, next_step: str) -> TidegateError:
        return TidegateError(code, expected=expected, found=found, where=self._where, next_step=next_step)


def info_of(client: Any) -> Mapping[str, str]:
    """What a server tells of itself."""
    return {str(name): str(value) for name, value in client.info().items()}


def _worries_of(client: Any) -> Sequence[tuple[str, str]]:
    info = info_of(client)
    found: list[tuple[str, str]] = []
    if info.get("aof_enabled") != "1":
        found.append((f"appendonly no: {_LOSES}", "set appendonly yes and appendfsync always in redis.conf"))
    else:
        sync = _setting(client, "appendfsync")
        if sync != "always":
            found.append((f"appendfsync {sync}: {_LOSES}", "set appendfsync always in redis.conf"))
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(
            (
                f"maxmemory-policy {policy}: a full server removes rows, stamps and fences without a trace",
                "set maxmemory-policy noeviction in redis.conf",
            )
        )
    return found


_LOSES = "rows of a finished epoch may be lost when the server or its machine dies"


def _setting(client: Any, name: str) -> str:
    try:
        found: Mapping[str | bytes, str | bytes] = client.config_get(name)
    except ERRORS:
        return "unknown (CONFIG GET is not allowed)"
    values = [value.decode() if isinstance(value, bytes) else value for value in found.values()]
    return values[0] if values else "unknown"
