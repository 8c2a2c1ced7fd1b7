"""Two Spark sessions, one after the other: tasks that are tried again, and two executors that can be killed.

They end whatever session is active, so these tests come after all others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tests.integration.place import Place
from tests.surprises.executors import SPECULATION_QUANTILE, Executors

ROOT = Path(__file__).parents[2]
_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOOPBACK = "127.0.0.1"

BOTH = {
    "spark.ui.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": _FLAGS,
    "spark.driver.host": _LOOPBACK,
    "spark.executor.extraJavaOptions": _FLAGS,
    "spark.executorEnv.PYTHONPATH": str(ROOT),
}
LOCAL = {
    "spark.master": "local[2,4]",
    "spark.executor.pyspark.memory": "8g",  # of address space, for both workers together
    "spark.driver.maxResultSize": "1m",
}
CLUSTER = {
    "spark.master": "local-cluster[1,1,1024]",
    "spark.executor.memory": "512m",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.locality.wait": "0s",  # tasks of one stage go to both executors
    "spark.shuffle.reduceLocality.enabled": "false",
    # A user may have switched these off; a query of tidegate needs them.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.shuffle.io.maxRetries": "1",  # a killed executor is not waited for
    "spark.shuffle.io.retryWait": "100ms",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "10ms",
    SPECULATION_QUANTILE: "1",
    "spark.speculation.multiplier": "1",
    "spark.speculation.efficiency.enabled": "false",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of this folder come last, each module in one piece."""
    items.sort(key=lambda item: item.path.parent == Path(__file__).parent)


@pytest.fixture(scope="module")
def local() -> Iterator[SparkSession]:
    with _session(LOCAL) as session:
        yield session


@pytest.fixture(scope="module")
def executors() -> Iterator[Executors]:
    """One executor on each of two hosts: Spark does not speculate on the host where the first attempt is."""
    with ExitStack() as stack:
        session = stack.enter_context(_session(CLUSTER))
        yield stack.enter_context(Executors(session))


@pytest.fixture
def place(local: SparkSession, tmp_path: Path) -> Place:
    return Place(tmp_path, local)


@pytest.fixture
def cluster_place(executors: Executors, tmp_path: Path) -> Place:
    return Place(tmp_path, executors.session)


@contextmanager
def _session(settings: dict[str, str]) -> Iterator[SparkSession]:
    active = SparkContext._active_spark_context
    if active is not None:
        active.stop()
    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    conf = SparkConf().setAppName("tidegate-surprises").setAll([*BOTH.items(), *settings.items()])
    SparkContext._ensure_initialized(conf=conf)
    jvm: Any = SparkContext._jvm
    jvm.org.apache.spark.util.Utils.setCustomHostname(_LOOPBACK)  # where a local cluster's master and worker listen
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        if before is None:
            del os.environ["PYSPARK_PYTHON"]
        else:
            os.environ["PYSPARK_PYTHON"] = before
