"""The programs of docs/how-to/enrich-from-postgres.md, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from cachetools import TTLCache

from tests.house.repository import ROOT
from tests.support.driver import json_rows
from tests.support.postgres import PostgresServer
from tests.support.today import turn

GUIDE = ROOT / "docs" / "how-to" / "enrich-from-postgres.md"


def write_orders(folder: Path, file: int, orders: list[tuple[int, int | None]]) -> None:
    """One file of orders, each with the number of its customer."""
    lines = [json.dumps({"id": number, "customer": customer}) for number, customer in orders]
    (folder / "orders" / f"{file}.json").write_text("\n".join(lines))


@turn(2, of=4)
@pytest.mark.timeout(180)
def test_each_order_gets_the_name_of_its_customer(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        (tmp_path / name).write_text(text)
    postgres.execute("CREATE TABLE customers (id bigint PRIMARY KEY, name text, country text)")
    postgres.execute("INSERT INTO customers VALUES (1, 'Ada', 'GB'), (2, 'Blaise', 'FR')")
    (tmp_path / "orders").mkdir()
    write_orders(tmp_path, 1, [(0, 1), (1, 2), (2, None), (3, 3), (4, 1)])
    monkeypatch.setenv("CUSTOMERS", postgres.conninfo)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ran = subprocess.run(
        [sys.executable, "enrich.py"], cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    rows = json_rows(sorted((tmp_path / "enriched").glob("*.json")))
    assert sorted((row["id"], row.get("name"), row.get("country")) for row in rows) == [
        (0, "Ada", "GB"),
        (1, "Blaise", "FR"),
        (2, None, None),
        (3, None, None),
        (4, "Ada", "GB"),
    ]


def test_a_name_that_has_changed_is_found_when_the_age_of_the_cache_has_passed(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guide's lookup itself, as a worker calls it for one file of orders after the other."""
    (text,) = re.findall(r"```python\n# customers.py\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    monkeypatch.setenv("CUSTOMERS", f"{postgres.conninfo} options='-csearch_path=aged'")
    customers: dict[str, Any] = {}
    exec(text, customers)
    with psycopg.connect(os.environ["CUSTOMERS"], autocommit=True) as database:
        database.execute("CREATE SCHEMA aged")
        database.execute("CREATE TABLE customers (id bigint PRIMARY KEY, name text, country text)")
        database.execute("INSERT INTO customers VALUES (1, 'Ada', 'GB'), (2, 'Blaise', 'FR')")
        now = 0.0
        cache = customers["_cache"] = TTLCache(100, customers["_SECONDS"], timer=lambda: now)

        def names(*ids: int) -> list[str | None]:
            return [row["name"] for row in customers["find"](pa.array(ids, pa.int64())).to_pylist()]

        assert names(1, 3) == ["Ada", None]
        database.execute("UPDATE customers SET name = 'Augusta' WHERE id = 1")
        database.execute("INSERT INTO customers VALUES (3, 'Carl', 'DE')")
        now = customers["_SECONDS"] - 1
        assert names(1, 2, 3) == ["Ada", "Blaise", None], "as old as the cache allows"
        now = customers["_SECONDS"] + 1
        assert names(1, 2, 3) == ["Augusta", "Blaise", "Carl"]
        assert len(cache) == 3
        customers["_connection"].close()
