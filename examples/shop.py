"""A shop: each order once in PostgreSQL and in a Delta table, running totals in PostgreSQL and Redis, alerts in Kafka.

    python examples/shop.py --feed      # one terminal: a file of orders each second, some of them broken
    python examples/shop.py             # another one: kill it (kill -9), and start it again

    orders/ --> orders --> table orders (PostgreSQL), table orders (Delta), broken lines to bad-orders/
           `--> totals --> table totals (PostgreSQL), keys totals:PRODUCT (Redis), alerts (Kafka)

It needs the extras `postgres`, `delta`, `redis` and `kafka`, and three servers. The environment says where they are:

    SHOP_POSTGRES   a connection string of libpq; without it `host=127.0.0.1 dbname=shop`. The password: PGPASSWORD
    SHOP_REDIS      without it `redis://127.0.0.1:6379/0`. The password: REDIS_PASSWORD. Redis must sync each write
                    (`appendonly yes`, `appendfsync always`)
    SHOP_KAFKA      without it `127.0.0.1:9092`. It must have a topic `alerts`

All sinks of a query are written in the same epochs. In PostgreSQL, Delta and Kafka each row is there once. In Redis the
newest total of a product replaces the one before, also while an epoch runs again. See docs/guarantees.md.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pyspark.sql import functions as F

from tidegate import (
    DeltaSink,
    FileSink,
    FileSource,
    Job,
    KafkaSink,
    PostgresSink,
    RedisSink,
    only_parsed,
    parsed_or_dead,
)

PRODUCTS = ("apples", "bread", "cheese", "dates", "eggs", "flour", "grapes", "honey", "ice", "jam")
ORDER = "id LONG, customer STRING, product STRING, quantity INT, price INT"
ALERT_ABOVE = 200_000
"""An alert tells each total of a product above this many cents."""


@dataclass(frozen=True)
class Stores:
    """Where the servers are."""

    postgres: str = "host=127.0.0.1 dbname=shop"
    redis: str = "redis://127.0.0.1:6379/0"
    kafka: str = "127.0.0.1:9092"
    redis_options: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of_environment(cls) -> Stores:
        places = {"postgres": "SHOP_POSTGRES", "redis": "SHOP_REDIS", "kafka": "SHOP_KAFKA"}
        given = {name: os.environ[variable] for name, variable in places.items() if variable in os.environ}
        password = {"password": "env:REDIS_PASSWORD"} if "REDIS_PASSWORD" in os.environ else {}
        return cls(redis_options=password, **given)


def declare(folder: Path, stores: Stores) -> Job:
    """The job. Each file of `folder/orders` is an epoch of each query."""
    job = Job("shop", checkpointing_dir=str(folder / ".tidegate"))
    lines = job.source("lines", FileSource(str(folder / "orders"), format="text", maxFilesPerTrigger=1))
    orders = parsed_or_dead(lines, "value", ORDER)
    job.query(
        "orders",
        orders,
        sinks=[
            PostgresSink("orders-table", stores.postgres, table="orders"),
            DeltaSink("orders-lake", folder / "lake" / "orders"),
        ],
        dead_letters=FileSink("bad-orders", folder / "bad-orders", format="json"),
    )
    totals = (
        only_parsed(orders)
        .groupBy("product")
        .agg(F.count("*").alias("orders"), F.sum(F.expr("quantity * price")).alias("cents"))
    )
    job.query(
        "totals",
        totals,
        mode="update",
        sinks=[
            PostgresSink("totals-table", stores.postgres, table="totals", key="product"),
            RedisSink("totals-live", stores.redis, prefix="totals", key="product", options=stores.redis_options),
            KafkaSink("alerts", stores.kafka, topic="alerts", key="product", where=F.col("cents") > ALERT_ABOVE),
        ],
    )
    return job


def lines_of(number: int, *, orders: int = 100) -> Iterator[str]:
    """The lines of the file with this number, always the same: orders as JSON. One in twenty or so is broken."""
    chance = random.Random(number)
    for place in range(orders):
        order = {
            "id": number * orders + place,
            "customer": f"customer-{chance.randrange(200)}",
            "product": chance.choice(PRODUCTS),
            "quantity": chance.randint(1, 5),
            "price": chance.randint(50, 2000),
        }
        text = json.dumps(order)
        yield text if chance.random() < 0.95 else text[: chance.randrange(10, len(text) - 1)]


def put(folder: Path, number: int) -> None:
    """Write a file of orders under a hidden name, and rename it: the job never reads half a file."""
    orders = folder / "orders"
    orders.mkdir(parents=True, exist_ok=True)
    hidden = orders / f".{number:06}"
    hidden.write_text("".join(f"{line}\n" for line in lines_of(number)), encoding="utf-8")
    hidden.rename(orders / f"{number:06}.txt")


def main() -> None:
    folder = Path("shop")
    if "--feed" not in sys.argv[1:]:
        (folder / "orders").mkdir(parents=True, exist_ok=True)
        declare(folder, Stores.of_environment()).run()
        return
    for number in count(len([*folder.glob("orders/*.txt")])):
        put(folder, number)
        time.sleep(1)


if __name__ == "__main__":
    main()
