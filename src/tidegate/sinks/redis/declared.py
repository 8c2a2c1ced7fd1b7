"""The options of a Redis sink as the program declares them: what its checks, description and tasks read."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from tidegate.sinks.redis.names import KeyNames
from tidegate.sinks.redis.server import RedisAddress
from tidegate.sinks.redis.values import RedisRules


class RowFormat(Enum):
    """The form of a row: the option `format=`."""

    HASH = "hash"
    JSON = "json"


class DeclaredRedisSink(Protocol):
    """The options of a `RedisSink`. `expire_seconds`: how long a row lives behind its last write; None: for ever."""

    uid: str
    server: RedisAddress
    names: KeyNames
    key: tuple[str, ...]
    deleted: str | None
    format: RowFormat
    expire_seconds: float | None
    rules: RedisRules
