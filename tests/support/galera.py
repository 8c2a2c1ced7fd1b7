"""A real cluster of Galera for tests: two nodes of MariaDB on loopback that both take writes.

    def test_something(galera: tuple[MariaDBServer, MariaDBServer]) -> None:
        one, other = galera

The second node begins with a copy of the first one's folder. Debian has the scripts for the transfer of a state in the
package of the whole server. The script here only says that the state is there; the rest comes from the other node.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.debian import Packages
from tests.support.mariadb import MARIADB, MariaDBServer, started_of
from tests.support.postgres import give_away
from tidegate.testing.kafka.ports import free_port

GALERA = Packages("galera", (*MARIADB.packages, "galera-4"))
_PROVIDER = "usr/lib/galera/libgalera_smm.so"
_TRANSFER = "copied"
_SCRIPT = """#!/bin/sh
# galeracluster.com/library/documentation/scriptable-sst.html: a joiner is ready, then has a state; a donor is done.
gtid=$COPIED_STATE
while [ $# -gt 0 ]; do
    case $1 in
        --role) role=$2 ;;
        --gtid) gtid=$2 ;;
    esac
    shift
done
if [ "$role" = joiner ]; then echo "ready 127.0.0.1:1"; echo "$gtid"; else echo "done $gtid"; fi
"""
_JOIN_SECONDS = 60.0


class GaleraServer(MariaDBServer):
    """A node. It is a plain server until `join`."""

    group_port = 0
    _state_of_copy = ""

    def join(self, *others: GaleraServer) -> None:
        """Start as a node of the cluster of the others, or of a new one; return when the node takes statements."""
        self.group_port = free_port((self.port,))
        self._settings = {
            **self._settings,
            "wsrep-on": "ON",
            "wsrep-provider": str(self._programs / _PROVIDER),
            "wsrep-cluster-address": f"gcomm://{','.join(f'127.0.0.1:{other.group_port}' for other in others)}",
            "wsrep-node-address": f"127.0.0.1:{self.group_port}",
            "wsrep-provider-options": f"gmcast.listen_addr=tcp://127.0.0.1:{self.group_port};gcache.size=16M;"
            f"ist.recv_addr=127.0.0.1:{free_port((self.port, self.group_port))}",
            "wsrep-sst-method": _TRANSFER,
            "binlog-format": "ROW",
            "innodb-autoinc-lock-mode": "2",
        }
        script = self._folder / f"wsrep_sst_{_TRANSFER}"
        script.write_text(_SCRIPT)
        script.chmod(0o755)
        self.resume()
        end = time.monotonic() + _JOIN_SECONDS
        while self._status("wsrep_ready", "wsrep_cluster_size") != ["ON", str(len(others) + 1)]:
            if time.monotonic() > end:
                raise RuntimeError(self._told("the node did not join"))
            time.sleep(0.05)

    def copied(self) -> GaleraServer:
        """A stopped server with the data of this one, which has left its cluster."""
        other = GaleraServer(self._programs)
        shutil.copytree(self._data, other._data)
        give_away((other._folder, *other._folder.rglob("*")), other._user)
        saved = dict(line.split(":") for line in (self._data / "grastate.dat").read_text().splitlines() if ":" in line)
        other._state_of_copy = f"{saved['uuid'].strip()}:{saved['seqno'].strip()}"
        return other

    def _environment(self) -> dict[str, str]:
        known = super()._environment()
        return {**known, "PATH": f"{self._folder}:/usr/bin:/bin", "COPIED_STATE": self._state_of_copy}

    def _status(self, *names: str) -> list[str]:
        return [self.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1] for name in names]


@pytest.fixture(scope="session")
def galera() -> Iterator[tuple[MariaDBServer, MariaDBServer]]:
    """The one cluster of this run of pytest. Shared: use databases of your own."""
    one = started_of(GaleraServer, GALERA, {})
    with ExitStack() as removed:
        removed.callback(one.remove)
        one.stop()
        one.join()
        one.stop()
        other = one.copied()
        removed.callback(other.remove)
        one.join()
        other.join(one)
        yield one, other
