"""Redis that syncs each write. Its rows are visible inside their epoch, so they are compared when all input is through:
then each key holds the row of the run that counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from tests.campaign.places import ROWS, SUMS
from tests.campaign.stores.store import ADDRESS, COLUMNS, NEWEST, ServerCrash, Store
from tests.support.variables import variables
from tidegate.sinks.base import TwoPhaseSink

_KEYS: Mapping[str, Sequence[str]] = {ROWS: ("number",), SUMS: ("word", "seen"), NEWEST: ("word",)}
"""By table, which is the prefix of its keys."""
_TYPES: Mapping[str, Callable[[str], object]] = {"word": str, "lucky": float}
"""Of the columns that are no whole numbers."""
_KEYS_AT_ONCE = 5_000
_OWN = ":_tidegate"


class Redis(Store):
    """Hashes. What is left over would be marks of attempts that no epoch has taken, and stamps of deleted keys."""

    keyed = (NEWEST,)
    points = ("recover.begun",)

    @contextmanager
    def serve(self, folder: Path) -> Generator[ServerCrash]:
        from tests.support.redis import PASSWORD, RedisServer, packages, running

        server = RedisServer(packages())
        address = f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"
        with running(server), variables({ADDRESS: address}):
            yield ServerCrash(server)

    def sinks(self, query: str) -> list[TwoPhaseSink]:
        tables = {f"{query}-store": query, **({f"{query}-newest": NEWEST} if query == SUMS else {})}
        return [_sink(uid, table) for uid, table in tables.items()]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        with _client() as client:
            names = (name for name in client.scan_iter(f"{table}:*", count=_KEYS_AT_ONCE) if _OWN not in name)
            return [_row(table, fields) for fields in _hashes(client, set(names))]

    def left_over(self) -> dict[str, list[str]]:
        with _client() as client:
            marks = [name for table in _KEYS for name in client.hkeys(f"{table}{_OWN}") if name.startswith("prepared ")]
            stamps = [name for table in _KEYS for name in client.hkeys(f"{table}{_OWN}:deleted")]
        return {"marks of attempts": marks, "stamps of deleted keys": stamps}


def _sink(uid: str, table: str) -> TwoPhaseSink:
    from tidegate import RedisSink

    return RedisSink(uid, os.environ[ADDRESS], prefix=table, key=_KEYS[table])


def _client() -> Any:
    import redis

    return redis.Redis.from_url(os.environ[ADDRESS], decode_responses=True)


def _hashes(client: Any, names: set[str]) -> Iterator[Mapping[str, str]]:
    """A scan may name a key twice; a set does not."""
    left = iter(names)
    while some := list(islice(left, _KEYS_AT_ONCE)):
        pipeline = client.pipeline(transaction=False)
        for name in some:
            pipeline.hgetall(name)
        yield from pipeline.execute()


def _row(table: str, fields: Mapping[str, str]) -> tuple[Any, ...]:
    """A hash has no field for a null."""
    return tuple(_TYPES.get(name, int)(fields[name]) if name in fields else None for name in COLUMNS[table])
