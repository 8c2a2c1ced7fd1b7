"""PostgreSQL, Redis and Kafka for one shop. Its environment leads to them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.postgres import PostgresServer, started
from tests.support.redis import PASSWORD, RedisServer, packages, running
from tests.support.variables import variables
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import create_topic

ALERTS = "alerts"
_PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Servers:
    postgres: PostgresServer
    redis: RedisServer
    brokers: str


@contextmanager
def serving(folder: Path) -> Generator[Servers]:
    """The servers, until the end of the block. The broker keeps its data below `folder`."""
    with ExitStack() as stack:
        postgres = started()
        stack.callback(postgres.remove)
        redis = RedisServer(packages())
        stack.enter_context(running(redis))
        broker = stack.enter_context(Broker.start(folder / "broker"))
        create_topic(broker.servers, ALERTS, _PARTITIONS)
        there = {
            "SHOP_POSTGRES": postgres.conninfo,
            "SHOP_REDIS": redis.url,
            "SHOP_KAFKA": broker.servers,
            "REDIS_PASSWORD": PASSWORD,
        }
        with variables(there):
            yield Servers(postgres, redis, broker.servers)
