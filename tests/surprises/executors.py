"""The executors of a `local-cluster` session: on two hosts, found by their parent and application, killed by id."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from tests.integration.place import wait_until

_SECOND_HOST = "127.0.0.2"
_MEMORY_MB = 1024
SPECULATION_QUANTILE = "spark.speculation.quantile"
"""The share of a stage's tasks that must be done before any other one is slow: 1 means no speculation."""


class Executors:
    """The session's own executor, and one more of a worker on a second (loopback) host."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._stack = ExitStack()

    def __enter__(self) -> Executors:
        folder = self._stack.enter_context(TemporaryDirectory())
        self._stack.callback(self._start_worker(folder).shutdown)
        self.wait_until_there()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        # Spark's own worker of a local cluster keeps the executors' output in the installation, and leaves it there.
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / self.session.sparkContext.applicationId)

    def processes(self) -> list[int]:
        """The process ids of the executors of this session that live."""
        driver = self._jvm.java.lang.ProcessHandle.current().pid()
        application = self.session.sparkContext.applicationId
        return [process for process in _children(driver) if application in _command(process)]

    def kill(self, process: int) -> None:
        """SIGKILL to one executor; wait until it is no more."""
        assert process in self.processes()
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: process not in self.processes(), "the end of an executor")

    def wait_until_there(self) -> None:
        """Wait until both hosts have an executor that the driver knows (it is listed there itself)."""
        wait_until(lambda: len(self.processes()) == 2 and self._registered() == 3, "two executors")

    @contextmanager
    def speculation(self) -> Iterator[None]:
        """For a while, a task that runs longer than the others gets a second attempt. Spark reads this once a stage."""
        settings: Any = self._context.conf()
        settings.set(SPECULATION_QUANTILE, "0")
        try:
            yield
        finally:
            settings.set(SPECULATION_QUANTILE, "1")

    @property
    def _jvm(self) -> Any:
        return self.session.sparkContext._jvm

    @property
    def _context(self) -> Any:
        context: Any = self.session.sparkContext._jsc
        return context.sc()

    def _registered(self) -> int:
        return self._context.getExecutorMemoryStatus().size()

    def _start_worker(self, folder: str) -> Any:
        """A worker like those that `local-cluster` starts inside the driver's JVM, with a host of its own."""
        deploy = self._jvm.org.apache.spark.deploy
        cluster = getattr(deploy, "LocalSparkCluster$").__getattr__("MODULE$").get().get()
        masters = self._jvm.java.lang.Class.forName("org.apache.spark.deploy.LocalSparkCluster").getDeclaredField(
            "masterRpcEnvs"
        )
        masters.setAccessible(True)
        address = masters.get(cluster).apply(0).address()
        gateway: Any = self.session.sparkContext._gateway
        urls = gateway.new_array(self._jvm.java.lang.String, 1)
        urls[0] = f"spark://{address.hostPort()}"
        worker = getattr(deploy.worker, "Worker$").__getattr__("MODULE$")
        none = getattr(worker, "startRpcEnvAndEndpoint$default$8")()
        return worker.startRpcEnvAndEndpoint(
            _SECOND_HOST, 0, 0, 1, _MEMORY_MB, urls, folder, none, self._context.conf(), none
        )


def _children(parent: int) -> list[int]:
    processes = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [process for process in processes if _parent(process) == parent]


def _parent(process: int) -> int | None:
    try:
        state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(parent)


def _command(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []
