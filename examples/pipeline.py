r"""From clicks to alerts in four queries, without a broker: ingest, sessionize, join, alert.

    python examples/pipeline.py                                   # one terminal: kill it (kill -9), and start it again
    sqlite3 alerts.db 'SELECT * FROM alerts ORDER BY id DESC'     # another one: large orders, with the visit of each

    rows --> ingest --events--> sessionize --sessions--> join --bought--> alert --> alerts.db
                        \-------------------------------/

Each order is there once, whatever is killed when. `tidegate info pipeline --dir .tidegate` shows how the queries took
part in the newest checkpoint; `tidegate savepoint` takes one cut across all of them. See docs/channels.md.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F

from tidegate import FileSource, Job, RateSource, SQLiteSink


def declare(rows: RateSource | FileSource, folder: Path) -> Job:
    job = Job("pipeline", checkpointing_dir=str(folder / ".tidegate"), checkpointing_interval="1s")
    events, sessions, bought = job.channel("events"), job.channel("sessions"), job.channel("bought")

    # Each second brings 100 rows of another user. One row in ten is an order, the others are clicks.
    user, price = "concat('user-', value div 100 % 20) AS user", "if(value % 10 = 9, value % 97, 0) AS price"
    parsed = job.source("rows", rows).selectExpr("value AS id", user, price, "timestamp AS at")
    job.query("ingest", parsed, sinks=[events])

    # A visit ends when the user has not clicked for a second.
    clicks = job.source("clicks", events).where("price = 0").withWatermark("at", "2 seconds")
    visit = F.session_window("at", "1 second").alias("visit")
    visits = clicks.groupBy(F.col("user").alias("visitor"), visit).agg(F.count("*").alias("clicks"))
    job.query("sessionize", visits.select("visitor", "visit.start", "visit.end", "clicks"), sinks=[sessions])

    # A channel carries no watermark: each reader sets its own.
    orders = job.source("orders", events).where("price > 0").withWatermark("at", "10 seconds")
    visited = job.source("visits", sessions).withWatermark("end", "10 seconds")
    joined = orders.join(visited, F.expr("user = visitor AND at BETWEEN start AND end"))
    job.query("join", joined.select("id", "user", "price", "at", "clicks"), sinks=[bought])

    large = job.source("large", bought).where("price > 90")
    job.query("alert", large, sinks=[SQLiteSink("alerts", str(folder / "alerts.db"), table="alerts")])
    return job


if __name__ == "__main__":
    declare(RateSource(rows_per_second=100), Path()).run()
