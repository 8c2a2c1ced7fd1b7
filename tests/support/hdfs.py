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
from collections.abc import Iterator, Mapping
from pathlib import Path
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

_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_NAME_NODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATA_NODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.1
_SHOWN_LINES = 15


class HdfsServer:
    """A NameNode and a DataNode in a folder. `conf` is their HADOOP_CONF_DIR, also for clients."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        """`address`: of this machine, where clients reach it."""
        self.folder = folder
        self.address = address
        self.conf = folder / "conf"
        self._java = find_java().command
        spark = Path(pyspark.__file__).parent / "jars"
        jars = fetched(HDFS, print)
        self._class_path = os.pathsep.join([str(self.conf), str(jars / HDFS.proof), f"{spark}{os.sep}*"])
        ports: list[int] = []
        for _ in range(5):
            ports.append(free_port(ports))
        self.port = ports[0]
        self._write_settings(ports)
        self._name_node: Process | None = None
        self._data_node: Process | None = None

    @property
    def uri(self) -> str:
        return f"hdfs://{self.address}:{self.port}"

    def start(self) -> None:
        """Format, start both, and return when a write has succeeded: an open port says little, in safe mode."""
        self._data_node = self._spawn(_DATA_NODE, "data-node.log")  # waits for its NameNode
        self._run(_NAME_NODE, "-format", "-nonInteractive")
        self.start_name_node()

    def stop(self) -> None:
        process.end([each for each in (self._data_node, self._name_node) if each is not None], _STOP_SECONDS)

    def kill_name_node(self) -> None:
        if self._name_node is not None:
            process.kill([self._name_node])

    def start_name_node(self, *, wait: bool = True) -> None:
        """Start it where none is alive. With `wait`, return when a write has succeeded."""
        self._name_node = self._spawn(_NAME_NODE, "name-node.log")
        if wait:
            self.await_write()

    def admin(self, *arguments: str) -> str:
        """`hdfs dfsadmin ARGUMENTS`. Returns what it prints."""
        return self._run(_ADMIN, *arguments)

    def await_write(self) -> None:
        import hdfs_native

        end = time.monotonic() + _START_SECONDS
        while True:
            for each in (self._name_node, self._data_node):
                if each is not None and not each.is_alive():
                    raise RuntimeError(f"a process of HDFS ended:\n{self._logs()}")
            try:
                client = hdfs_native.Client(self.uri, {"dfs.client.failover.max.attempts": "0"})
                with client.create(f"/.ready-{time.monotonic_ns()}") as file:
                    file.write(b"ready")
            except (OSError, RuntimeError) as error:  # not yet
                if time.monotonic() > end:
                    raise RuntimeError(f"HDFS does not take a write: {error}\n{self._logs()}") from error
                time.sleep(_LOOK_SECONDS)
            else:
                return

    def _write_settings(self, ports: list[int]) -> None:
        self.conf.mkdir(parents=True)
        rpc, *others = (f"{self.address}:{port}" for port in ports)
        names = ("namenode.http-address", "datanode.address", "datanode.ipc.address", "datanode.http.address")
        write_site(self.conf / "core-site.xml", {"fs.defaultFS": self.uri})
        write_site(
            self.conf / "hdfs-site.xml",
            {
                "dfs.namenode.rpc-address": rpc,
                **{f"dfs.{name}": address for name, address in zip(names, others, strict=True)},
                "dfs.namenode.name.dir": str(self.folder / "names"),
                "dfs.datanode.data.dir": str(self.folder / "data"),
                "dfs.replication": "1",
                "dfs.namenode.datanode.registration.ip-hostname-check": "false",  # the address may have no name
                "dfs.namenode.safemode.extension": "0",
                "dfs.namenode.safemode.threshold-pct": "0",  # the data node may report after the start
                "ipc.client.connect.max.retries": "600",  # each after `interval`: the data node waits for a restart
                "ipc.client.connect.retry.interval": "200",
            },
        )

    def _spawn(self, main: str, log: str) -> Process:
        return process.spawn(self._command(main), self.folder, self.folder / log)

    def _run(self, main: str, *arguments: str) -> str:
        command = self._command(main, *arguments)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=_START_SECONDS)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join([main, *arguments])} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [self._java, *_JVM, "-cp", self._class_path, main, *arguments]

    def _logs(self) -> str:
        lines: list[str] = []
        for log in sorted(self.folder.glob("*.log")):
            lines += [f"{log.name}: {line}" for line in log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]]
        return "\n".join(lines)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """Shared: use a folder of your own below its root."""
    try:
        require(Extra.HDFS)
        server = HdfsServer(tmp_path_factory.mktemp("hdfs"))
    except TidegateError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no HDFS server for tests: {error}")
    try:
        server.start()
        yield server
    finally:
        server.stop()


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
