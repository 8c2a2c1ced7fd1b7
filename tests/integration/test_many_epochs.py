"""What the sinks of databases and lakes keep beside the rows stays small, however many epochs they have written.

Each epoch has an attempt that dies with its rows prepared. Tables of Delta are in
`tests/delta/test_delta_compacting.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mysql.test_mysql_tables import Place as OfMySQL
from tests.postgres.test_postgres_tables import Place as OfPostgres
from tests.redis.test_redis_keys import Place as OfRedis
from tests.support.iceberg import opened as iceberg_table
from tests.support.iceberg import sink_in
from tests.support.staged import outcome, plan
from tests.support.today import sampled
from tests.upsert.places import KEYED, place_on, prepared, row
from tidegate.core.records import Outcome
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.testing.contract import IDENTITY

KEPT = 100
"""Epochs that a ledger keeps, so that a start finds how far behind a target is."""
KEYS = 10
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Store:
    sink: TwoPhaseSink
    counts: Callable[[], Counts]
    """What is there beside the table of the rows: names, and how many of each."""


def mysql(request: pytest.FixtureRequest, protocol: str) -> Store:
    server = request.getfixturevalue("mariadb")
    place = OfMySQL(server, server.database())

    def counts() -> Counts:
        return {**rows_beside(place, "SELECT COUNT(*) FROM {}"), "branches": len(server.branches())}

    return Store(place.sink(protocol=protocol), counts)


def postgres(request: pytest.FixtureRequest, protocol: str) -> Store:
    server = request.getfixturevalue("preparing")
    place = OfPostgres(server, server.schema())

    def counts() -> Counts:
        prepared_now = server.execute("SELECT count(*) FROM pg_prepared_xacts")[0][0]
        return {**rows_beside(place, "SELECT count(*) FROM @.{}"), "prepared": prepared_now}

    return Store(place.sink(protocol=protocol), counts)


def rows_beside(place: OfMySQL | OfPostgres, query: str) -> Counts:
    """The number of rows of each table but the target's. `query` counts those of the table `{}`."""
    return {name: place.rows(query.format(name))[0][0] for name in place.tables() if name != "t"}


def redis(request: pytest.FixtureRequest, form: str) -> Store:
    server = request.getfixturevalue("redis_server")
    place = OfRedis(server, server.prefix())

    def counts() -> Counts:
        with server.client() as client:
            sizes: Mapping[str, Callable[[str], int]] = {
                "hash": client.hlen,
                "zset": client.zcard,
                "set": client.scard,
                "list": client.llen,
                "string": lambda _: 1,
            }
            names = [name for name in place.names() if ":_tidegate" in name]
            return {name.removeprefix(place.prefix): sizes[client.type(name)](name) for name in names}

    return Store(place.sink(deleted="gone", format=form), counts)


def upsert(request: pytest.FixtureRequest, word: str) -> Store:
    place = place_on(word, request, request.getfixturevalue("tmp_path"))

    def counts() -> Counts:
        return {
            "stages": len(place.stages()),
            "stamps": len(place.stamps()),
            "fences": place.execute("SELECT COUNT(*) FROM @_tidegate_fences@")[0][0],
        }

    return Store(place.sink(), counts)


def iceberg(request: pytest.FixtureRequest, _: str) -> Store:
    folder: Path = request.getfixturevalue("tmp_path")

    def counts() -> Counts:
        files = [path for path in (folder / "warehouse").rglob("*") if path.is_file()]
        table = iceberg_table(folder)
        loose = {path.name for path in files if path.suffix == ".parquet"}
        used = {Path(task.file.file_path).name for task in table.scan().plan_files()}
        staged = [path for path in files if "tidegate" in str(path.relative_to(folder))]
        return {"unused": len(loose - used), "staged": len(staged), "properties": len(table.properties)}

    return Store(sink_in(folder), counts)


def sqlite(request: pytest.FixtureRequest, _: str) -> Store:
    folder: Path = request.getfixturevalue("tmp_path")

    def counts() -> Counts:
        return {"files": sum(1 for path in folder.rglob("*") if path.is_file() and path.name != "out.db")}

    return Store(SQLiteSink("out", folder / "out.db", table="t"), counts)


STORES: Mapping[str, tuple[Callable[[pytest.FixtureRequest, str], Store], str]] = {
    "mysql staged": (mysql, "staged"),
    "mysql xa": (mysql, "xa"),
    "postgres staged": (postgres, "staged"),
    "postgres prepared": (postgres, "prepared"),
    "redis hash": (redis, "hash"),
    "redis json": (redis, "json"),
    "upsert sqlite": (upsert, "sqlite"),
    "upsert postgres": (upsert, "postgres"),
    "upsert mysql": (upsert, "mysql"),
    "iceberg": (iceberg, ""),
    "sqlite": (sqlite, ""),
}
CASES = [
    *sampled([pytest.param(name, 110, id=f"110 {name}") for name in STORES]),
    *[pytest.param(name, 2_000, id=f"2000 {name}", marks=pytest.mark.more) for name in STORES],
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "epochs"), CASES)
def test_what_is_kept_beside_the_rows_stays_bounded(request: pytest.FixtureRequest, name: str, epochs: int) -> None:
    make, how = STORES[name]
    store = make(request, how)
    sink = store.sink
    sink.open(plan(KEYED))
    for epoch in range(epochs):
        rows = [row((2 * epoch + number) % KEYS, f"word {epoch}") for number in range(2)]
        prepared(sink, rows, epoch=epoch, task=9)  # an attempt that dies
        assert outcome(sink, prepared(sink, rows, epoch=epoch)) is Outcome.COMMITTED
        sink.abort(sink.pending(IDENTITY))
        sink.clean(IDENTITY, epoch)
    counts = store.counts()
    assert max(counts.values()) <= KEPT, counts
    assert len(counts) <= KEYS + 1, "a key has one stamp"
