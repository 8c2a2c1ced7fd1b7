"""Redis and Valkey servers for tests, out of Debian's packages, on loopback, data in a temporary folder.

    def test_something(redis_server: RedisServer) -> None:
        prefix = redis_server.prefix()  # of its own
        ...

One server starts when the first test of a run of pytest asks for it. It syncs each write, as the sink wants it. Where
it cannot be had, its tests are skipped with the reason; where the environment has CI set, they fail.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.archives import Archive
from tests.support.debian import NotToBeHad, Packages, environment_of, unpacked
from tests.support.s3 import skip_or_fail
from tidegate.extras import Extra
from tidegate.testing.kafka.ports import free_port

PASSWORD = "n0t-shown-anywhere"
SERVERS = {
    "redis": Packages("redis", ("redis-server", "redis-tools", "liblzf1", "libjemalloc2")),
    "valkey": Packages("valkey", ("valkey-server", "valkey-tools", "liblzf1", "libjemalloc2"), Archive.BACKPORTS),
}
"""By the name of the server's program. The environment variable TIDEGATE_TEST_REDIS chooses; without it `redis`."""
SLOTS = 16_384
_START_SECONDS = 30.0
_LOOK_SECONDS = 0.02
_SHOWN_LINES = 15


class RedisServer:
    """A server in a folder of its own. `settings`: other lines of redis.conf."""

    def __init__(self, packages: Path, **settings: str) -> None:
        self.port = free_port(())
        self._packages = packages
        self._settings = {
            "bind": "127.0.0.1",
            "requirepass": PASSWORD,
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
            "maxmemory-policy": "noeviction",
            **settings,
        }
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-redis-"))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def session(self) -> int:
        """The session of its processes, while it runs."""
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process.pid

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self, **options: Any) -> Any:
        import redis

        given: dict[str, Any] = {"decode_responses": True, **options}
        return redis.Redis(host="127.0.0.1", port=self.port, password=PASSWORD, **given)

    def prefix(self) -> str:
        """A new prefix of keys."""
        return f"t-{secrets.token_hex(4)}"

    def start(self) -> None:
        """Start on the data that is there, at the same port; return when the server answers."""
        options = [word for name, value in self._settings.items() for word in (f"--{name}", value)]
        (program,) = (self._packages / "usr/bin").glob("*-server")
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(program), "--port", str(self.port), "--dir", str(self._folder), *options],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment_of(self._packages),
                start_new_session=True,  # Ctrl-C of pytest must not stop it before the tests have ended
            )
        self._await_answer(self._process)

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """The server dies at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def crash(self) -> None:
        """As by a power loss: it reads its log again."""
        self.kill()
        self.start()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def keep(self) -> Path:
        """A copy of the data, for `put_back`. The server must be down."""
        return Path(shutil.copytree(self._folder, self._folder.with_name(f"{self._folder.name}-kept")))

    def put_back(self, kept: Path) -> None:
        """Replace the data by a copy, which is used up. The server must be down."""
        shutil.rmtree(self._folder)
        kept.rename(self._folder)

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        import redis

        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                with self.client() as client:
                    client.ping()
            except redis.RedisError as error:
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(self._told(f"the server does not answer: {error}")) from error
                time.sleep(_LOOK_SECONDS)
            else:
                return

    def _told(self, what: str) -> str:
        log = (self._folder / "log").read_text("utf-8", "replace")
        return "\n".join([what, *log.splitlines()[-_SHOWN_LINES:]])


class RedisCluster:
    """Servers that share the slots; all are primaries."""

    def __init__(self, packages: Path, servers: int = 3) -> None:
        self._bus = [free_port(()) for _ in range(servers)]
        self.servers = [
            RedisServer(packages, **{"cluster-enabled": "yes", "cluster-port": str(bus)}) for bus in self._bus
        ]

    @property
    def url(self) -> str:
        return self.servers[0].url

    def start(self) -> None:
        """Start the servers, divide the slots, and return when each one takes keys."""
        for each in self.servers:
            each.start()
        count, first = len(self.servers), self.servers[0]
        for number, each in enumerate(self.servers):
            low, high = SLOTS * number // count, SLOTS * (number + 1) // count - 1
            with each.client() as client:
                client.execute_command("CLUSTER ADDSLOTSRANGE", low, high)
                if number:
                    client.execute_command("CLUSTER MEET", "127.0.0.1", first.port, self._bus[0])
        end = time.monotonic() + _START_SECONDS
        while not all(self._is_ready(each) for each in self.servers):
            if time.monotonic() > end:
                raise RuntimeError("the servers do not become a cluster")
            time.sleep(_LOOK_SECONDS)

    def client(self) -> Any:
        from redis.cluster import RedisCluster as Client

        return Client(host="127.0.0.1", port=self.servers[0].port, password=PASSWORD, decode_responses=True)

    def remove(self) -> None:
        for each in self.servers:
            each.remove()

    def _is_ready(self, server: RedisServer) -> bool:
        with server.client() as client:
            told = str(client.execute_command("CLUSTER INFO"))
        return "'cluster_state': 'ok'" in told and f"'cluster_known_nodes': '{len(self.servers)}'" in told


def packages(server: str = "") -> Path:
    """The folder of the programs of `server`, or of the chosen one; skips the test without them."""
    server = server or chosen()
    if Extra.REDIS.missing:
        skip_or_fail("no Redis for tests: redis-py is not installed")
    try:
        return unpacked(SERVERS[server])
    except NotToBeHad as error:
        skip_or_fail(f"no {server} for tests: {error}")
        raise


def chosen() -> str:
    return os.environ.get("TIDEGATE_TEST_REDIS", "redis")


@contextmanager
def running(server: RedisServer | RedisCluster) -> Iterator[None]:
    """Started, and removed at the end."""
    try:
        server.start()
        yield
    finally:
        with suppress(OSError):
            server.remove()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The one server of this run of pytest. Shared: use prefixes of your own."""
    server = RedisServer(packages())
    with running(server):
        yield server


@pytest.fixture(scope="session")
def valkey() -> Iterator[RedisServer]:
    """One server of Valkey for this run of pytest. Shared: use prefixes of your own."""
    server = RedisServer(packages("valkey"))
    with running(server):
        yield server


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[RedisCluster]:
    """Three primaries for this run of pytest. Shared: use prefixes of your own."""
    cluster = RedisCluster(packages())
    with running(cluster):
        yield cluster
