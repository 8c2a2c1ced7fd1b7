"""A standalone cluster of Spark for tests: a master and two workers, once a run of pytest on loopback.

    def test_something(standalone: StandaloneCluster) -> None:
        Driver(PROGRAM, ..., environment=standalone.environment)

The workers have the environment of pytest at their start, and so have the executors: Python, PYTHONPATH. Each has a
host of its own (127.0.0.1 and 127.0.0.2), so Spark speculates. All folders are below one temporary folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from tests.support.machines import Machine, OtherDisk
from tidegate.machine.java import find_java
from tidegate.testing.kafka import process
from tidegate.testing.kafka.ports import free_port
from tidegate.testing.kafka.process import Process

_JVM = ("-Xms32m", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_START_SECONDS = 120.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_SHOWN_LINES = 15


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """The address of a worker, and its machine; None: this one. `disk`: a folder for all that the worker and its
    executors write; None: that of the cluster, and the system's for temporary files.
    """

    address: str
    machine: Machine | OtherDisk | None = None
    disk: Path | None = None


class StandaloneCluster:
    """A master and some workers of one core. `environment`: what a program needs to use it."""

    def __init__(
        self,
        folder: Path,
        address: str = "127.0.0.1",
        workers: Sequence[WorkerPlace] = (WorkerPlace("127.0.0.1"), WorkerPlace("127.0.0.2")),
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        """`address`: of the master. `defaults`: settings of the programs beside those that make them quick."""
        self.folder = folder
        self._address = address
        self._workers = workers
        self._defaults = defaults or {}
        self._java = find_java().command
        self._home = Path(pyspark.__file__).parent
        ports: list[int] = []
        for _ in range(2):
            ports.append(free_port(ports))
        self._port, self._page = ports
        self._processes: list[Process] = []

    @property
    def url(self) -> str:
        return f"spark://{self._address}:{self._port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """SPARK_CONF_DIR, with small executors that start quickly. The program, or its command, names the master."""
        return {"SPARK_CONF_DIR": str(self.folder / "conf"), "PYSPARK_PYTHON": sys.executable}

    def start(self) -> None:
        """Return when the master knows both workers."""
        self._write_defaults()
        self._spawn(WorkerPlace(self._address), "master", "master.Master", "--port", str(self._port))
        for number, place in enumerate(self._workers):
            work = (place.disk or self.folder) / f"work-{number}"
            options = ("--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url)
            self._spawn(place, f"worker-{number}", "worker.Worker", *options)
        self._await_workers()

    def stop(self) -> None:
        process.end(self._processes[::-1], _STOP_SECONDS)

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers. Each leads a session, in which its executors are, too."""
        return [each.pid for each in self._processes[1:]]

    def executors(self) -> list[int]:
        """The process ids of all executors that live now."""
        workers = set(self.workers)
        found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
        return sorted(each for each in found if _parent(each) in workers)

    def kill_executor(self) -> int:
        """SIGKILL to one executor; its process id."""
        pid = self.executors()[0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def decommission_worker(self) -> int:
        """Tell the first worker that its machine will soon be taken away; the process id of its executor."""
        worker = self._processes[1]
        (executor,) = [each for each in self.executors() if _parent(each) == worker.pid]
        os.kill(worker.pid, signal.SIGPWR)
        return executor

    def logs(self) -> str:
        """The last lines of each process and executor."""
        lines: list[str] = []
        for log in [*sorted(self.folder.glob("*.log")), *sorted(self.folder.glob("work-*/*/*/stderr"))]:
            name = log.relative_to(self.folder)
            lines += [f"{name}: {line}" for line in log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]]
        return "\n".join(lines)

    def _write_defaults(self) -> None:
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
        defaults = {
            "spark.driver.host": "127.0.0.1",
            "spark.log.level": "WARN",
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": quick,
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.locality.wait": "0s",
            "spark.shuffle.io.maxRetries": "1",
            "spark.shuffle.io.retryWait": "100ms",
            **self._defaults,
        }
        (self.folder / "conf").mkdir(parents=True)
        text = "".join(f"{name} {value}\n" for name, value in defaults.items())
        (self.folder / "conf" / "spark-defaults.conf").write_text(text, encoding="utf-8")

    def _spawn(self, place: WorkerPlace, name: str, main: str, *options: str) -> None:
        page = str(self._page if name == "master" else 0)
        environment = (
            f"SPARK_HOME={self._home}",
            f"SPARK_CONF_DIR={self.folder}",
            f"SPARK_LOCAL_IP={place.address}",
            "SPARK_SCALA_VERSION=2.13",
            *([] if place.disk is None else [f"SPARK_LOCAL_DIRS={place.disk / 'local'}"]),
        )
        java = (
            self._java,
            *_JVM,
            "-Dspark.master.rest.enabled=false",
            "-Dspark.decommission.enabled=true",
            "-cp",
            f"{self._home}/jars/*",
            f"org.apache.spark.deploy.{main}",
        )
        command = ["env", *environment, *java, "--webui-port", page, "--host", place.address, *options]
        command = command if place.machine is None else place.machine.command(command)
        self._processes.append(process.spawn(command, self.folder, self.folder / f"{name}.log"))

    def _await_workers(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while self._workers_alive() < len(self._workers):
            if time.monotonic() > end or not all(each.is_alive() for each in self._processes):
                raise RuntimeError(f"the standalone cluster did not start:\n{self.logs()}")
            time.sleep(_LOOK_SECONDS)

    def _workers_alive(self) -> int:
        page = f"http://{self._address}:{self._page}/json/"
        with suppress(OSError, ValueError), urllib.request.urlopen(page, timeout=5) as answer:  # a page at first
            return json.load(answer)["aliveworkers"]
        return 0


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """Shared: two cores in all, so one application at a time."""
    cluster = StandaloneCluster(tmp_path_factory.mktemp("standalone"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _parent(pid: int) -> int | None:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(parent)
