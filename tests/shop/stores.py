"""Reads what is visible in every store of the shop, as a reader of the user does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.shop.expected import Content, Order, Total
from tests.shop.servers import ALERTS, Servers
from tests.support.driver import json_rows
from tidegate.checkpoints.spark_layout import OFFSETS, entry_numbers
from tidegate.core.spark_log import log_offset, parse_offsets
from tidegate.testing.kafka.topics import read_all


def read(folder: Path, servers: Servers) -> Content:
    columns = ", ".join(Order._fields)
    files = sorted((folder / "bad-orders").glob("[!._]*.json"))
    return Content(
        orders_table=[Order(*row) for row in servers.postgres.execute(f"SELECT {columns} FROM orders")],
        orders_lake=_lake(folder / "lake" / "orders"),
        bad=[json.loads(str(row["row"]))["text"] for row in json_rows(files)],
        totals_table=[Total(*row) for row in servers.postgres.execute("SELECT product, orders, cents FROM totals")],
        totals_live=_live(servers),
        alerts=[_total(json.loads(record.value or b"{}")) for record in read_all(servers.brokers, ALERTS)],
    )


def files_by_epoch(folder: Path, query: str) -> list[int]:
    """For each epoch of a query the number of files that were read up to its end, from Spark's own log."""
    log = folder / ".tidegate" / "shop" / "queries" / query / "g1" / "spark" / OFFSETS
    ends: list[int] = []
    for epoch in sorted(entry_numbers([each.name for each in log.iterdir()])):
        offsets = parse_offsets((log / str(epoch)).read_bytes())
        newest = log_offset(offsets.positions[0] if offsets else None)
        ends.append(0 if newest is None else newest + 1)
    return ends


def left_over(servers: Servers) -> list[str]:
    """Staging tables that a job which has ended must not leave."""
    found = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE '\\_tidegate\\_stage%'"
    return [str(name) for (name,) in servers.postgres.execute(found)]


def _lake(path: Path) -> list[Order]:
    from deltalake import DeltaTable

    return [Order(**row) for row in DeltaTable(str(path)).to_pyarrow_table().to_pylist()]


def _live(servers: Servers) -> list[Total]:
    with servers.redis.client() as client:
        keys = [key for key in client.scan_iter("totals:*") if not key.startswith("totals:_tidegate")]
        return [_total(client.hgetall(key)) for key in keys]


def _total(row: dict[str, Any]) -> Total:
    return Total(str(row.get("product")), int(row.get("orders", -1)), int(row.get("cents", -1)))
