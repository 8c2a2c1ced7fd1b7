"""An HDFS for tests: a NameNode and a DataNode on loopback, with data in a temporary folder, once a run of pytest.

    def test_something(hdfs: HdfsServer) -> None:
        folder = f"{hdfs.uri}/something"

A test that kills the NameNode, or changes a mode of it, puts it back. `python -m tests.support.jvm` downloads the jar.
Where the server cannot be had, its tests are skipped with the reason; where the environment has CI set, they fail.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar
from xml.sax.saxutils import escape

import pyspark
import pytest

from tests.support.jvm import HDFS
from tests.support.machines import Machines
from tidegate.core.errors import TidegateError
from tidegate.extras import Extra, require
from tidegate.machine.jars import fetched
from tidegate.machine.java import find_java
from tidegate.testing.kafka import process
from tidegate.testing.kafka.ports import free_port
from tidegate.testing.kafka.process import Process


class Server(Protocol):
    """What a fixture starts and stops."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


ServerT = TypeVar("ServerT", bound=Server)

_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_START_SECONDS = 120.0
STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.1
_SHOWN_LINES = 15

OF_A_DATA_NODE = ("datanode.address", "datanode.ipc.address", "datanode.http.address")
_SETTINGS: Mapping[str, str] = {
    "dfs.replication": "1",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",  # the address may have no name
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.safemode.threshold-pct": "0",  # the data node may report after the start
    "ipc.client.connect.max.retries": "600",  # each after `interval`: the data node waits for a restart
    "ipc.client.connect.retry.interval": "200",
}


class HdfsDaemons:
    """Processes of HDFS in a folder. `conf` is their HADOOP_CONF_DIR, also for clients."""

    def __init__(self, folder: Path, core: Mapping[str, str], hdfs: Mapping[str, str]) -> None:
        """`core`, `hdfs`: the settings of its two files, beside those that every HDFS of tests has."""
        self.folder = folder
        self.conf = folder / "conf"
        self._java = find_java().command
        spark = Path(pyspark.__file__).parent / "jars"
        jars = fetched(HDFS, print)
        self._class_path = os.pathsep.join([str(self.conf), str(jars / HDFS.proof), f"{spark}{os.sep}*"])
        self.conf.mkdir(parents=True)
        write_site(self.conf / "core-site.xml", core)
        write_site(self.conf / "hdfs-site.xml", {**_SETTINGS, "dfs.datanode.data.dir": str(folder / "data"), **hdfs})

    def spawn(self, main: str, log: str, *arguments: str) -> Process:
        return process.spawn(self._command(main, *arguments), self.folder, self.folder / log)

    def run(self, main: str, *arguments: str) -> str:
        """Run a command to its end. Returns what it prints."""
        command = self._command(main, *arguments)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=_START_SECONDS)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join([main, *arguments])} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def await_write(self, uri: str, needed: Sequence[Process]) -> None:
        """Return when a write has succeeded: an open port says little, in safe mode. `needed`: they must live."""
        import hdfs_native

        end = time.monotonic() + _START_SECONDS
        while True:
            if not all(each.is_alive() for each in needed):
                raise RuntimeError(f"a process of HDFS ended:\n{self._logs()}")
            try:
                client = hdfs_native.Client(uri, {"dfs.client.failover.max.attempts": "0"})
                with client.create(f"/.ready-{time.monotonic_ns()}") as file:
                    file.write(b"ready")
            except (OSError, RuntimeError) as error:  # not yet
                if time.monotonic() > end:
                    raise RuntimeError(f"HDFS does not take a write: {error}\n{self._logs()}") from error
                time.sleep(_LOOK_SECONDS)
            else:
                return

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [self._java, *_JVM, "-cp", self._class_path, main, *arguments]

    def _logs(self) -> str:
        lines: list[str] = []
        for log in sorted(self.folder.glob("*.log")):
            lines += [f"{log.name}: {line}" for line in log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]]
        return "\n".join(lines)


class HdfsServer:
    """A NameNode and a DataNode in a folder. `conf` is their HADOOP_CONF_DIR, also for clients."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        """`address`: of this machine, where clients reach it."""
        self.folder = folder
        self.address = address
        ports = free_ports(5)
        self.port = ports[0]
        rpc, *others = (f"{address}:{port}" for port in ports)
        names = ("namenode.http-address", *OF_A_DATA_NODE)
        settings = {
            "dfs.namenode.rpc-address": rpc,
            **{f"dfs.{name}": each for name, each in zip(names, others, strict=True)},
            "dfs.namenode.name.dir": str(folder / "names"),
        }
        self._daemons = HdfsDaemons(folder, {"fs.defaultFS": self.uri}, settings)
        self.conf = self._daemons.conf
        self._name_node: Process | None = None
        self._data_node: Process | None = None

    @property
    def uri(self) -> str:
        return f"hdfs://{self.address}:{self.port}"

    def start(self) -> None:
        """Format, start both, and return when a write has succeeded."""
        self._data_node = self._daemons.spawn(DATA_NODE, "data-node.log")  # waits for its NameNode
        self._daemons.run(NAME_NODE, "-format", "-nonInteractive")
        self.start_name_node()

    def stop(self) -> None:
        process.end(self._processes(), STOP_SECONDS)

    def kill_name_node(self) -> None:
        if self._name_node is not None:
            process.kill([self._name_node])

    def start_name_node(self, *, wait: bool = True) -> None:
        """Start it where none is alive. With `wait`, return when a write has succeeded."""
        self._name_node = self._daemons.spawn(NAME_NODE, "name-node.log")
        if wait:
            self.await_write()

    def admin(self, *arguments: str) -> str:
        """`hdfs dfsadmin ARGUMENTS`. Returns what it prints."""
        return self._daemons.run(_ADMIN, *arguments)

    def await_write(self) -> None:
        self._daemons.await_write(self.uri, self._processes())

    def _processes(self) -> list[Process]:
        return [each for each in (self._data_node, self._name_node) if each is not None]


@contextmanager
def started_or_skipped(make: Callable[[], ServerT]) -> Generator[ServerT, None, None]:
    """A server that has started. Where it cannot be had, the test is skipped; in CI it fails."""
    try:
        require(Extra.HDFS)
        server = make()
    except TidegateError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no HDFS server for tests: {error}")
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """Shared: use a folder of your own below its root."""
    with started_or_skipped(lambda: HdfsServer(tmp_path_factory.mktemp("hdfs"))) as server:
        yield server


@pytest.fixture(scope="module")
def hdfs_for_machines(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """A server of a module's own, which its machines reach."""
    server = HdfsServer(tmp_path_factory.mktemp("hdfs"), machines.address)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def write_site(path: Path, settings: Mapping[str, str]) -> None:
    """One of Hadoop's files of settings."""
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    path.write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")


def free_ports(count: int) -> list[int]:
    """Different free ports."""
    ports: list[int] = []
    for _ in range(count):
        ports.append(free_port(ports))
    return ports
