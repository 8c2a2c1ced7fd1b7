"""A YARN for tests: a ResourceManager and a NodeManager on loopback, over the HDFS of tests, once a run of pytest.

    def test_something(yarn: YarnServer) -> None:
        Driver(PROGRAM, ..., environment=yarn.environment)

Containers get what `environment` names, and nothing of pytest's environment.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.house.repository import ROOT
from tests.support.hdfs import HdfsServer, write_site
from tests.support.jvm import HDFS, YARN
from tidegate.core.errors import TidegateError
from tidegate.machine.jars import fetched
from tidegate.machine.java import find_java
from tidegate.testing.kafka import process
from tidegate.testing.kafka.ports import free_port
from tidegate.testing.kafka.process import Process

_JVM = ("-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_MANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODE = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_START_SECONDS = 120.0
_LOOK_SECONDS = 0.1
_SHOWN_LINES = 15
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


_COMMAND = """#!/bin/sh
case $1 in
logs) main=LogsCLI; shift;;
application) main=ApplicationCLI;;
esac
exec {java} {options} -cp {class_path} org.apache.hadoop.yarn.client.cli.$main "$@"
"""
"""Two of the commands of Hadoop's `yarn`."""


class YarnServer:
    """A ResourceManager and a NodeManager in a folder. `conf` is their HADOOP_CONF_DIR, also for clients; `bin` has the
    command `yarn`."""

    def __init__(self, folder: Path, hdfs: HdfsServer) -> None:
        self.folder = folder
        self.conf = folder / "conf"
        self.hdfs = hdfs
        self._java = find_java().command
        self._spark = Path(pyspark.__file__).parent
        jars = [fetched(HDFS, print) / HDFS.proof, fetched(YARN, print) / "*", self._spark / "jars" / "*"]
        self._class_path = os.pathsep.join(map(str, [self.conf, *jars]))
        ports: list[int] = []
        for _ in range(8):
            ports.append(free_port(ports))
        self._page = ports[0]
        self._write_settings(ports)
        self.bin = self._written_command()
        self._processes: list[Process] = []

    @property
    def environment(self) -> Mapping[str, str]:
        """What a program needs: where YARN is, and small containers that start quickly, with the tests' own Python."""
        return {
            "HADOOP_CONF_DIR": str(self.conf),
            "SPARK_CONF_DIR": str(self.conf),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def start(self) -> None:
        """Return when the ResourceManager knows its node."""
        for main in (_MANAGER, _NODE):
            log = self.folder / f"{main.rpartition('.')[2]}.log"
            command = ["env", f"HADOOP_CONF_DIR={self.conf}", self._java, *_JVM, "-cp", self._class_path, main]
            self._processes.append(process.spawn(command, self.folder, log))
        end = time.monotonic() + _START_SECONDS
        while self._ask("metrics").get("clusterMetrics", {}).get("activeNodes", 0) < 1:
            if time.monotonic() > end or not all(each.is_alive() for each in self._processes):
                raise RuntimeError(f"YARN did not start:\n{self.logs()}")
            time.sleep(_LOOK_SECONDS)

    def stop(self) -> None:
        """A NodeManager whose ResourceManager has gone does not end by itself, and neither do its containers."""
        process.kill(self._processes)
        for pid in self.containers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def containers(self, named: str = "") -> list[int]:
        """The living processes of the containers whose ids begin like `named`, as /proc shows them."""
        here, wanted = f"\0LOG_DIRS={self.folder}".encode(), f"\0CONTAINER_ID={named}".encode()
        return [pid for pid, found in _environments() if here in found and wanted in found]

    def applications(self) -> list[dict[str, Any]]:
        """All applications, as the ResourceManager shows them."""
        return (self._ask("apps").get("apps") or {}).get("app", [])

    def end_applications(self) -> None:
        """Kill what runs."""
        for each in self.applications():
            if each["finalStatus"] == "UNDEFINED":
                subprocess.run([self.bin / "yarn", "application", "-kill", each["id"]], check=False, timeout=120)

    def logs(self) -> str:
        """The last lines of each process and container."""
        lines: list[str] = []
        for log in [*sorted(self.folder.glob("*.log")), *sorted(self.folder.glob("logs/*/*/std*"))]:
            name = log.relative_to(self.folder)
            lines += [f"{name}: {line}" for line in log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]]
        return "\n".join(lines)

    def _ask(self, what: str) -> dict[str, Any]:
        page = f"http://127.0.0.1:{self._page}/ws/v1/cluster/{what}"
        with suppress(OSError), urllib.request.urlopen(page, timeout=5) as answer:
            return json.load(answer)
        return {}

    def _written_command(self) -> Path:
        """A script as Hadoop's own one."""
        folder = self.folder / "bin"
        folder.mkdir()
        values = {"java": self._java, "options": " ".join(_JVM), "class_path": f"'{self._class_path}'"}
        (folder / "yarn").write_text(_COMMAND.format(**values), encoding="utf-8")
        (folder / "yarn").chmod(0o755)
        return folder

    def _write_settings(self, ports: list[int]) -> None:
        self.conf.mkdir(parents=True)
        for name in ("core-site.xml", "hdfs-site.xml"):
            shutil.copy(self.hdfs.conf / name, self.conf / name)
        manager, node = "yarn.resourcemanager", "yarn.nodemanager"
        names = (
            f"{manager}.webapp.address",
            f"{manager}.address",
            f"{manager}.scheduler.address",
            f"{manager}.resource-tracker.address",
            f"{manager}.admin.address",
            f"{node}.address",
            f"{node}.localizer.address",
            f"{node}.webapp.address",
        )
        write_site(
            self.conf / "yarn-site.xml",
            {
                **{name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)},
                f"{manager}.hostname": "127.0.0.1",
                f"{manager}.scheduler.class": f"org.apache.hadoop.{manager.replace('.resource', '.server.resource')}"
                ".scheduler.fifo.FifoScheduler",
                f"{manager}.am.max-attempts": "2",
                "yarn.scheduler.minimum-allocation-mb": "128",
                f"{node}.hostname": "127.0.0.1",
                f"{node}.bind-host": "127.0.0.1",
                f"{node}.resource.memory-mb": "4096",
                f"{node}.resource.cpu-vcores": "4",
                f"{node}.vmem-check-enabled": "false",
                f"{node}.pmem-check-enabled": "false",
                f"{node}.disk-health-checker.enable": "false",
                f"{node}.local-dirs": str(self.folder / "local"),
                f"{node}.log-dirs": str(self.folder / "logs"),
                f"{node}.env-whitelist": "JAVA_HOME,PATH,HADOOP_CONF_DIR",
            },
        )
        path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        quick = {
            "spark.yarn.jars": f"local:{self._spark}/jars/*",
            "spark.log.level": "WARN",
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.executor.instances": "1",
            "spark.executor.cores": "2",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _QUICK,
            "spark.yarn.am.memory": "384m",
            "spark.yarn.am.extraJavaOptions": _QUICK,
            "spark.yarn.am.waitTime": "100s",
            "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
            "spark.executorEnv.PYTHONPATH": path,
            "spark.yarn.appMasterEnv.PYTHONPATH": path,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": _QUICK,
            "spark.locality.wait": "0s",
        }
        text = "".join(f"{name} {value}\n" for name, value in quick.items())
        (self.conf / "spark-defaults.conf").write_text(text, encoding="utf-8")


def _environments() -> Iterator[tuple[int, bytes]]:
    """The variables of each process, with a zero byte before each."""
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                yield int(each.name), b"\0" + (each / "environ").read_bytes()


@pytest.fixture(scope="session")
def yarn(hdfs: HdfsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnServer]:
    """Shared."""
    try:
        server = YarnServer(tmp_path_factory.mktemp("yarn"), hdfs)
    except TidegateError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no YARN server for tests: {error}")
    try:
        server.start()
        yield server
    finally:
        server.stop()
