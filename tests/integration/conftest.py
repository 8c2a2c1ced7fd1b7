"""One Spark session for the whole suite, and a place of its own for each test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.place import Place
from tests.support.session import small_session
from tidegate.storages import leases
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Scheme
from tidegate.storages.terms.here import Here
from tidegate.storages.terms.lease import HeldTerm, TermsLease

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The tasks find the test sinks through PYTHONPATH."""
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "PYSPARK_PYTHON")}
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [before["PYTHONPATH"]])])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = small_session(spark_app_name="tidegate-integration", spark_sql_shuffle_partitions="2")
    yield session
    session.stop()
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(tmp_path, spark)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[HeldTerm]:
    """Every lease is one of terms. The list holds those that were taken."""
    taken: list[HeldTerm] = []

    class Kept(TermsLease):
        def take(self, job: str, patience_seconds: float) -> HeldTerm:
            taken.append(super().take(job, patience_seconds))
            return taken[-1]

    monkeypatch.setattr(
        leases,
        "_LEASES",
        {Scheme.FILE: lambda folder, timeout: Kept(open_storage(folder), timeout, here=Here())},
    )
    return taken
