"""`examples/pipeline.py` does what its head says: each large order of a visit that has ended is an alert, once."""

from __future__ import annotations

import json
import runpy
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tests.integration.place import Place
from tests.support.today import turn
from tidegate import FileSource

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.py"
SECONDS = 30
BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@turn(2, of=4)
def test_each_large_order_of_a_visit_that_has_ended_is_an_alert_once(place: Place) -> None:
    """The rows come in two starts. Visits that end later than two seconds before the last click are still open."""
    (place.folder / "rows").mkdir()
    declare = runpy.run_path(str(EXAMPLE))["declare"]
    rows = FileSource(str(place.folder / "rows"), format="json", schema="timestamp timestamp, value long")
    for part in range(2):
        write(place.folder / "rows", part, range(part * 50 * SECONDS, (part + 1) * 50 * SECONDS))
        declare(rows, place.folder).run(until="caught-up")
    alerts = [row[0] for row in place.table("alerts", path="alerts.db")]
    large = [value for value in range(100 * SECONDS) if value % 10 == 9 and value % 97 > 90]
    assert len(set(alerts)) == len(alerts)
    assert set(alerts) <= set(large)
    assert {value for value in large if value < 100 * (SECONDS - 5)} <= set(alerts)


def write(folder: Path, part: int, values: range) -> None:
    lines = (
        json.dumps({"timestamp": (BEGIN + timedelta(milliseconds=10 * value)).isoformat(), "value": value})
        for value in values
    )
    hidden = folder / f".{part}"
    hidden.write_text("\n".join(lines))
    hidden.rename(folder / f"{part}.json")
