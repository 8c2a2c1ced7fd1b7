"""The Redis sink under the contracts that tidegate ships, on a real server and on a cluster."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.support.redis import PASSWORD, RedisCluster, RedisServer
from tidegate.sinks.redis.sink import RedisSink
from tidegate.testing.contract import Row
from tidegate.testing.idempotent_contract import IdempotentContract

LOGIN = {"password": PASSWORD}


class OnRedis(IdempotentContract):
    """Each folder stands for a prefix of its own."""

    kills_at_most = 9
    server: RedisServer | RedisCluster

    @pytest.fixture(autouse=True)
    def on_the_server(self, redis_server: RedisServer) -> None:
        self.server = redis_server

    @property
    def prefix(self) -> str:
        return f"numbers-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"

    def rows(self) -> list[tuple[str, Any]]:
        """The names of all rows, and what they hold."""
        with self.server.client() as client:
            names = [name for name in client.scan_iter(f"*{self.prefix}*") if ":_tidegate" not in name]
            return [(name, client.hgetall(name) if client.type(name) == "hash" else client.get(name)) for name in names]


class TestRedisHashes(OnRedis):
    def make_sink(self) -> RedisSink:
        return RedisSink("numbers", self.server.url, prefix=self.prefix, key="id", options=LOGIN)

    def read_target(self) -> list[Row]:
        return [{"id": int(row["id"]), "word": row.get("word")} for _, row in self.rows()]


@pytest.mark.more
class TestRedisStrings(OnRedis):
    def make_sink(self) -> RedisSink:
        return RedisSink("numbers", self.server.url, prefix=self.prefix, key="id", format="json", options=LOGIN)

    def read_target(self) -> list[Row]:
        return [{"word": None, **json.loads(row)} for _, row in self.rows()]


class OnACluster(OnRedis):
    @pytest.fixture(autouse=True)
    def on_the_server(self, redis_cluster: RedisCluster) -> None:
        self.server = redis_cluster


@pytest.mark.more
class TestClusterHashes(OnACluster):
    def make_sink(self) -> RedisSink:
        return RedisSink("numbers", self.server.url, prefix=self.prefix, key="id", buckets=6, options=LOGIN)

    def read_target(self) -> list[Row]:
        return [{"id": int(row["id"]), "word": row.get("word")} for _, row in self.rows()]


@pytest.mark.more
class TestClusterStrings(OnACluster):
    def make_sink(self) -> RedisSink:
        return RedisSink(
            "numbers", self.server.url, prefix=self.prefix, key="id", buckets=6, format="json", options=LOGIN
        )

    def read_target(self) -> list[Row]:
        return [{"word": None, **json.loads(row)} for _, row in self.rows()]


@pytest.mark.more
class TestValkeyHashes(TestRedisHashes):
    @pytest.fixture(autouse=True)
    def on_the_server(self, valkey: RedisServer) -> None:
        self.server = valkey
