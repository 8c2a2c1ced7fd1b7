"""Connections to the server or the cluster of a sink."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import redis
from redis import connection
from redis.backoff import ExponentialBackoff
from redis.cluster import RedisCluster
from redis.exceptions import NoScriptError
from redis.retry import Retry

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import HIDDEN, may_be_secret
from tidegate.option_values import hide_secrets_of, is_kept_elsewhere, resolved
from tidegate.sinks.redis.scripts import Script
from tidegate.sinks.redis.words import ERRORS, remedy_of, told

_KINDS: Final[Mapping[str, type[str] | type[int] | type[float] | type[bool]]] = {
    "host": str,
    "port": int,
    "db": int,
    "username": str,
    "password": str,
    "unix_socket_path": str,
    "ssl": bool,
    "ssl_ca_certs": str,
    "ssl_ca_path": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_password": str,
    "ssl_cert_reqs": str,
    "ssl_check_hostname": bool,
    "socket_timeout": float,
    "socket_connect_timeout": float,
}
"""The options of redis-py that a sink takes, and their types."""
_TRUE: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_DEFAULTS: Final[Mapping[str, object]] = {
    "socket_connect_timeout": 10.0,
    "socket_timeout": 30.0,
    "socket_keepalive": True,
}
_NO_SECRET: Final = frozenset({"ssl_keyfile"})
"""Where a key is; its name sounds like one."""
_TRIES, _FIRST_PAUSE_SECONDS, _PAUSE_SECONDS = 3, 0.05, 1.0
"""How often the client repeats a call that has no answer. A repeated call changes nothing: its stamps are the same."""


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a script. All keys are in one bucket."""

    script: Script
    keys: Sequence[bytes | str]
    values: Sequence[bytes | str | int]

    def command(self, *, by_name: bool) -> tuple[Any, ...]:
        named = ("EVALSHA", self.script.sha) if by_name else ("EVAL", self.script.text)
        return (*named, len(self.keys), *self.keys, *self.values)


class RedisSession:
    """An open connection."""

    def __init__(self, client: Any, *, is_cluster: bool) -> None:
        self._client = client
        self._is_cluster = is_cluster

    def run(self, calls: Sequence[Call]) -> list[Any]:
        """The answers of scripts, in their order. All are sent before the first answer is read.

        A server that does not know a script (it has restarted) gets its text. Raises one of `ERRORS`.
        """
        answers = self._sent(calls, by_name=True)
        unknown = [place for place, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        again = self._sent([calls[place] for place in unknown], by_name=False)
        for place, answer in zip(unknown, again, strict=True):
            answers[place] = answer
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def hash(self, key: str) -> dict[str, str]:
        """The fields of one of tidegate's own hashes; empty if there is none."""
        found: Mapping[bytes, bytes] = self._client.hgetall(key)
        return {name.decode(): value.decode() for name, value in found.items()}

    def put(self, key: str, field: str, value: str) -> None:
        self._client.hset(key, field, value)

    def primaries(self) -> Iterable[Any]:
        """A client of each server that takes writes."""
        if not self._is_cluster:
            return [self._client]
        return [self._client.get_redis_connection(node) for node in self._client.get_primaries()]

    def _sent(self, calls: Sequence[Call], *, by_name: bool) -> list[Any]:
        if not calls:
            return []
        pipeline = self._client.pipeline(transaction=False)
        for call in calls:
            # Without the node, the client asks the cluster for the keys of each script.
            where = {"target_nodes": self._client.get_node_from_key(call.keys[0])} if self._is_cluster else {}
            pipeline.execute_command(*call.command(by_name=by_name), **where)
        return pipeline.execute(raise_on_error=False)


@dataclass(frozen=True)
class RedisAddress:
    """The options of redis-py that lead to a server: `host`, `port`, `db`, `username`, `password`, `ssl`, ...

    A value `env:NAME` or `file:PATH` is read by each process that connects. Values are never shown. `is_cluster`: the
    server is a node of a cluster, which tells the others.
    """

    settings: Mapping[str, str]
    is_cluster: bool = False

    def __post_init__(self) -> None:
        hide_secrets_of(self.settings)

    @classmethod
    def of(cls, url: str, options: Mapping[str, str | float], uid: str, *, is_cluster: bool) -> RedisAddress:
        """From a URL (`redis://host:6379/0`, `rediss://` with TLS, `unix://`), and options beside it.

        Raises OPTION_UNKNOWN. The error quotes no value: it may be a password.
        """
        try:
            settings = {**_of_url(url), **{name: _as_text(value) for name, value in options.items()}}
            for name, value in settings.items():
                _typed(name, value)
        except (ValueError, KeyError):
            raise TidegateError(
                Code.OPTION_UNKNOWN,
                expected="a URL of Redis, and options among " + ", ".join(sorted(_KINDS)),
                found=f"options {sorted(options)} and a URL that is not shown, or one of them has no fitting value",
                where=f"sink {uid!r}",
                next_step='for example "redis://cache.example:6379/0", options={"password": "env:REDIS_PASSWORD"}',
            ) from None
        return cls(settings, is_cluster)

    @property
    def shown(self) -> dict[str, str]:
        """The settings that may be written to a file, because they hold no secret."""
        return {name: value for name, value in self.settings.items() if _may_be_shown(name, value)}

    @contextmanager
    def connected(self) -> Generator[RedisSession]:
        """A connection, closed at the end.

        Raises one of `ERRORS`; OPTION_UNREADABLE if a value kept elsewhere cannot be read.
        """
        given = {name: _typed(name, resolved(name, value)) for name, value in self.settings.items()}
        retry = Retry(ExponentialBackoff(cap=_PAUSE_SECONDS, base=_FIRST_PAUSE_SECONDS), _TRIES)
        if self.is_cluster and not given.get("db"):
            given.pop("db", None)  # a cluster has no other
        connect = cast("Any", RedisCluster if self.is_cluster else redis.Redis)
        client: Any = connect(**{**_DEFAULTS, **given}, retry=retry)
        try:
            yield RedisSession(client, is_cluster=self.is_cluster)
        finally:
            client.close()

    def __str__(self) -> str:
        path = self.settings.get("unix_socket_path")
        place = path or f"{self.settings.get('host', 'localhost')}:{self.settings.get('port', '6379')}"
        number = self.settings.get("db", "0")
        return f"Redis{' Cluster' if self.is_cluster else ''} {place}{'' if number == '0' else f'/{number}'}"

    def __repr__(self) -> str:
        return f"RedisAddress({self}, settings: {HIDDEN})"


@contextmanager
def reached(server: RedisAddress, uid: str) -> Generator[RedisSession]:
    """A connection to the server of a sink. An error of the server ends the run: SINK_UNUSABLE."""
    try:
        with server.connected() as session:
            yield session
    except ERRORS as error:
        raise unusable(error, server, uid) from None


def unusable(error: Exception, server: RedisAddress, uid: str) -> TidegateError:
    """The error of a server that cannot be used as it is."""
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected="a Redis server that answers and lets this user write",
        found=told(error),
        where=f"sink {uid!r}: {server}",
        next_step=remedy_of(error),
    )


def _of_url(url: str) -> dict[str, str]:
    found: dict[str, Any] = cast("Any", connection).parse_url(url) if url else {}
    kind = found.pop("connection_class", None)
    if kind is connection.SSLConnection:
        found["ssl"] = True
    if "path" in found:
        found["unix_socket_path"] = found.pop("path")
    return {name: _as_text(value) for name, value in found.items()}


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _typed(name: str, value: str) -> str | float:
    """Raises KeyError for an option that a sink does not take, ValueError for a value of another type."""
    kind = _KINDS[name]
    if is_kept_elsewhere(value) or kind is str:
        return value
    return _TRUE[value.lower()] if kind is bool else kind(value)


def _may_be_shown(name: str, value: str) -> bool:
    return is_kept_elsewhere(value) or name in _NO_SECRET or not may_be_secret(name)
