"""The programs of docs/how-to/enrich-from-postgres.md, run as they stand there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT
from tests.support.driver import json_rows
from tests.support.postgres import PostgresServer
from tests.support.today import turn

GUIDE = ROOT / "docs" / "how-to" / "enrich-from-postgres.md"


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
    orders = [{"id": number, "customer": customer} for number, customer in enumerate([1, 2, None, 3, 1])]
    (tmp_path / "orders" / "1.json").write_text("\n".join(map(json.dumps, orders)))
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
