"""The stores that a campaign can strike, by the names of `./dev campaign`."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.campaign.places import QUERIES, STORE
from tests.campaign.stores.delta import Delta
from tests.campaign.stores.iceberg import Iceberg
from tests.campaign.stores.mariadb import MariaDB
from tests.campaign.stores.postgres import Postgres
from tests.campaign.stores.redis import Redis
from tests.campaign.stores.store import Store, Striker
from tests.campaign.stores.upsert import Upsert
from tests.support.variables import variables

STORES: Mapping[str, Store] = {
    "postgres": Postgres("staged"),
    "postgres-prepared": Postgres("prepared"),
    "mariadb": MariaDB("staged"),
    "mariadb-xa": MariaDB("xa"),
    "redis": Redis(),
    "delta": Delta(),
    "iceberg": Iceberg(),
    "upsert": Upsert(),
}


@contextmanager
def serve(name: str | None, folder: Path) -> Generator[Striker | None]:
    """The store of this name, if one is wanted. The environment of this process, and so of the drivers, leads to it."""
    if name is None:
        with variables({}, unset=[STORE]):
            yield None
        return
    with variables({STORE: name}), STORES[name].serve(folder) as striker:
        yield striker


def load() -> None:
    """Import what the sinks of the wanted store need, in a process that forks others."""
    name = os.environ.get(STORE)
    if name is not None:
        for query in QUERIES:
            STORES[name].sinks(query)
