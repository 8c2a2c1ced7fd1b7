"""An HDFS with two NameNodes for tests: a name service, whose NameNodes share a folder of edits, and a DataNode.

    def test_something(pair: HdfsPair) -> None:
        folder = f"{pair.uri}/something"  # HADOOP_CONF_DIR names `pair.conf`
        pair.kill("a")
        pair.promote("b")

No process promotes a NameNode by itself, and none fences: a test does both.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import hdfs_native
import pytest

from tests.support.hdfs import (
    DATA_NODE,
    NAME_NODE,
    OF_A_DATA_NODE,
    STOP_SECONDS,
    HdfsDaemons,
    free_ports,
    started_or_skipped,
)
from tests.support.variables import variables
from tidegate.testing.kafka import process
from tidegate.testing.kafka.process import Process

NameNode = Literal["a", "b"]

SERVICE = "tides"
_HA_ADMIN = "org.apache.hadoop.hdfs.tools.DFSHAAdmin"
_TURN_SECONDS = 60.0
_LOOK_SECONDS = 0.2


class HdfsPair:
    """Two NameNodes, `a` and `b`, and a DataNode in a folder. `conf` is their HADOOP_CONF_DIR, also for clients."""

    uri = f"hdfs://{SERVICE}"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._daemons = HdfsDaemons(folder, {"fs.defaultFS": self.uri}, _settings(folder))
        self.conf = self._daemons.conf
        self._name_nodes: dict[NameNode, Process] = {}
        self._data_node: Process | None = None

    def start(self) -> None:
        """Format, start all, make `a` the active one, and return when a write has succeeded."""
        self._data_node = self._daemons.spawn(DATA_NODE, "data-node.log")  # waits for its NameNodes
        self._daemons.run(NAME_NODE, *_being("a"), "-format", "-nonInteractive")
        shutil.copytree(self.folder / "names-a", self.folder / "names-b")
        for each in _NAMES:
            self.start_name_node(each)
        self.promote("a")

    def stop(self) -> None:
        process.end([*self._name_nodes.values(), *([] if self._data_node is None else [self._data_node])], STOP_SECONDS)

    def start_name_node(self, name: NameNode) -> None:
        """Start it where it is not alive. It is a standby."""
        self._name_nodes[name] = self._daemons.spawn(NAME_NODE, f"name-node-{name}.log", *_being(name))

    def kill(self, name: NameNode) -> None:
        process.kill([self._name_nodes[name]])

    def silence(self, name: NameNode) -> None:
        """SIGSTOP: its connections stay open, and no call gets an answer. It must not resume beside another active one:
        nothing fences it.
        """
        process.pause([self._name_nodes[name]])

    def demote(self, name: NameNode) -> None:
        """Active to standby."""
        self._daemons.run(_HA_ADMIN, "-transitionToStandby", name)

    def promote(self, name: NameNode) -> None:
        """Standby to active; wait until it is. The other one must not be active, unless it is silent."""
        end = time.monotonic() + _TURN_SECONDS
        while True:
            try:
                self._daemons.run(_HA_ADMIN, "-transitionToActive", "--forceactive", name)
            except RuntimeError:  # it does not answer yet, or has just started
                if time.monotonic() > end:
                    raise
                time.sleep(_LOOK_SECONDS)
            else:
                return

    def client(self) -> hdfs_native.Client:
        return hdfs_native.Client(self.uri)

    def repair(self) -> None:
        """Both alive again, and `a` active, as at the start."""
        for each in _NAMES:
            if not self._name_nodes[each].is_alive() or self._name_nodes[each].is_paused():
                self.kill(each)
                self.start_name_node(each)
        with suppress(RuntimeError):
            self.demote("b")
        self.promote("a")
        self._daemons.await_write(self.uri, list(self._name_nodes.values()))


_NAMES: tuple[NameNode, NameNode] = ("a", "b")


def _being(name: NameNode) -> tuple[str, str]:
    """Both have the same host, so the address does not tell a NameNode which one it is."""
    return "-D", f"dfs.ha.namenode.id={name}"


def _settings(folder: Path) -> Mapping[str, str]:
    ports = [f"127.0.0.1:{port}" for port in free_ports(7)]
    of_each = {
        f"dfs.namenode.{what}.{SERVICE}.{name}": value
        for name, rpc, page in zip(_NAMES, ports[:2], ports[2:4], strict=True)
        for what, value in {
            "rpc-address": rpc,
            "http-address": page,
            "name.dir": str(folder / f"names-{name}"),
        }.items()
    }
    return {
        "dfs.nameservices": SERVICE,
        f"dfs.ha.namenodes.{SERVICE}": ",".join(_NAMES),
        f"dfs.client.failover.proxy.provider.{SERVICE}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
        "dfs.namenode.shared.edits.dir": f"file://{folder / 'edits'}",
        "dfs.ha.standby.checkpoints": "false",
        "dfs.ha.tail-edits.period": "1s",
        "ipc.client.rpc-timeout.ms": "10000",  # the JVM's client leaves a silent NameNode after it
        "ha.failover-controller.cli-check.rpc-timeout.ms": "2000",
        **of_each,
        **{f"dfs.{name}": address for name, address in zip(OF_A_DATA_NODE, ports[4:], strict=True)},
    }


@pytest.fixture(scope="module")
def hdfs_pair_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsPair]:
    """A module's own, because its tests kill it."""
    with started_or_skipped(lambda: HdfsPair(tmp_path_factory.mktemp("hdfs-pair"))) as pair:
        yield pair


@pytest.fixture
def hdfs_pair(hdfs_pair_server: HdfsPair) -> Iterator[HdfsPair]:
    """Both NameNodes alive and `a` active; HADOOP_CONF_DIR names its settings, also for what the test starts."""
    with variables({"HADOOP_CONF_DIR": str(hdfs_pair_server.conf)}):
        hdfs_pair_server.repair()
        yield hdfs_pair_server
