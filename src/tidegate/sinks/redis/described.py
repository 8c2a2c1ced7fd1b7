"""The description of a Redis sink that a start writes, and the check of its server without the job's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tidegate.core.health import Finding, failed_by, ok, warn
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.redis.check import info_of, server_violations_of, worries_of
from tidegate.sinks.redis.declared import DeclaredRedisSink
from tidegate.sinks.redis.server import RedisAddress, reached


class RedisTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `RedisSink`. `left_out`: the names of options that may hold secrets."""

    settings: dict[str, str]
    prefix: str
    key: tuple[str, ...]
    format: str = "hash"
    deleted: str | None = None
    expire: float | None = None
    buckets: int | None = None
    invalid_text: str = "refuse"
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{RedisAddress(self.settings, self.buckets is not None)}, prefix {self.prefix}"


def target_of(sink: DeclaredRedisSink) -> RedisTarget:
    shown = sink.server.shown
    return RedisTarget(
        settings=shown,
        prefix=sink.names.prefix,
        key=sink.key,
        format=sink.format.value,
        deleted=sink.deleted,
        expire=sink.expire_seconds,
        buckets=sink.names.buckets,
        invalid_text=sink.rules.invalid_text.value,
        left_out=tuple(sorted(sink.server.settings.keys() - shown.keys())),
    )


def settings_of(target: RedisTarget, put_in: Mapping[str, str]) -> dict[str, str]:
    """The settings, together with those that were left out."""
    return {**target.settings, **{name: put_in[name] for name in target.left_out}}


def probed(sink: DeclaredRedisSink, what: str, plan: SinkPlan) -> Sequence[Finding]:
    """The server as the sink would use it. Writes nothing."""
    violations = server_violations_of(sink, plan)
    if violations:
        return [finding for each in violations for finding in failed_by(what, each)]
    with reached(sink.server, sink.uid) as session:
        versions = sorted({_version_of(info_of(client)) for client in session.primaries()})
        worries = worries_of(session)
    found = [ok(what, f"{sink.server} answers, {', '.join(versions)}")]
    return [*found, *(warn(what, worry, remedy) for worry, remedy in worries)]


def _version_of(info: Mapping[str, str]) -> str:
    valkey = info.get("valkey_version")
    return f"Valkey {valkey}" if valkey else f"version {info.get('redis_version', 'unknown')}"
