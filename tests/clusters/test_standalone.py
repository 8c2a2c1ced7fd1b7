"""Jobs on a standalone cluster: drivers and executors are killed, and every record is compared."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.house.repository import ROOT
from tests.kafka.seen import visible_now
from tests.storages.test_ingest_elsewhere import PROGRAM as INGEST_PROGRAM
from tests.storages.test_ingest_elsewhere import is_exact, numbers, numbers_logged, wait_for
from tests.support.driver import Driver
from tests.support.s3 import S3Server
from tests.support.standalone import StandaloneCluster
from tests.support.today import turn
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import TopicRecord, make_topic, produce

PROGRAM = Path(__file__).with_name("cluster_program.py")
COMMAND = ROOT / "src" / "tidegate" / "cli" / "main.py"
NUMBERS = 180
ROWS_AT_MOST = 60
"""The program's, for an epoch."""


@pytest.fixture
def cluster(standalone: StandaloneCluster, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> StandaloneCluster:
    """The cluster, with the variables that programs need for it, and for S3."""
    for name, value in standalone.environment.items():
        monkeypatch.setenv(name, value)
    return standalone


@turn(0, of=2)
@pytest.mark.timeout(400)
def test_a_job_on_a_cluster_is_exact_when_its_driver_and_an_executor_are_killed(
    cluster: StandaloneCluster, broker: Broker, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first driver is a program that Python runs; the next one is that of `tidegate run`."""
    numbers, copies, counts = (make_topic(broker.servers, 2) for _ in range(3))
    produce(broker.servers, numbers, [TopicRecord(str(number).encode()) for number in range(NUMBERS)])
    arguments = (broker.servers, numbers, copies, counts, str(s3.folder()))
    log = tmp_path / "log"
    with monkeypatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--master {cluster.url} pyspark-shell")
        with Driver(PROGRAM, *arguments, log=log, failpoints="decision.before@1=crash") as driver:
            assert driver.wait() == -signal.SIGKILL, f"{driver.tail()}\n{cluster.logs()}"
    run = ("run", "--master", cluster.url, str(PROGRAM), *arguments)
    with Driver(COMMAND, *run, log=log, failpoints="prepared.before@2=pause") as driver:
        paused = driver.wait_until_stopped()
        cluster.kill_executor()
        os.kill(paused, signal.SIGCONT)
        assert driver.wait() == 0, f"{driver.tail()}\n{cluster.logs()}"
    copied = rows_of(broker, copies)
    assert sorted(int(row["number"]) for row in copied) == list(range(NUMBERS))
    assert counts_of(rows_of(broker, counts)) == {str(digit): NUMBERS // 10 for digit in range(10)}


@pytest.mark.more
@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_rows_of_an_ingest_log_are_read_by_executors_and_computed_once_when_the_driver_is_killed(
    cluster: StandaloneCluster, s3: S3Server, tmp_path: Path
) -> None:
    checkpoints, log = str(s3.folder()), tmp_path / "log"
    (tmp_path / "born").write_text(str(time.time()))
    run = ("run", "--master", cluster.url, str(INGEST_PROGRAM), str(tmp_path), checkpoints, "queue", "8s")
    with Driver(COMMAND, *run, log=log, failpoints="commit.before@2=crash") as supervised:
        wait_for(lambda: len(numbers(checkpoints)) > 1000, supervised)
        supervised.process.terminate()
        assert supervised.wait() == 0, f"{supervised.tail()}\n{cluster.logs()}"
    with Driver(COMMAND, *run, "caught-up", log=log) as last:
        assert last.wait() == 0, f"{last.tail()}\n{cluster.logs()}"
    is_exact(checkpoints, numbers_logged(tmp_path, checkpoints))


@turn(1, of=4)
def test_a_check_of_a_cluster_names_what_its_executors_lack(
    cluster: StandaloneCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their Python is that below the virtual environment, which has no packages."""
    monkeypatch.setenv("PYSPARK_PYTHON", bare_python())
    for each in checked(cluster, "--conf", "spark.executorEnv.PYTHONPATH="):
        assert each["health"] == "FAILED", each
        assert all(f"no package {name} " in each["detail"] for name in ("tidegate", "msgspec", "pyarrow")), each
        assert "PYSPARK_PYTHON" in each["next"]


@pytest.mark.more
@pytest.mark.cluster
def test_a_check_of_a_cluster_shows_the_versions_on_its_executors(cluster: StandaloneCluster) -> None:
    for each in checked(cluster):
        assert each["health"] == "OK", each
        assert f"Python {platform.python_version()}, pyspark {pyspark.__version__}, tidegate" in each["detail"]


@pytest.mark.more
@pytest.mark.cluster
def test_a_job_is_not_started_on_executors_that_lack_a_package(
    cluster: StandaloneCluster, broker: Broker, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", bare_python())
    topics = [make_topic(broker.servers, 1) for _ in range(3)]
    conf = ("--conf", "spark.executorEnv.PYTHONPATH=")
    run = ("run", "--master", cluster.url, *conf, str(PROGRAM), broker.servers, *topics, str(s3.folder()))
    with Driver(COMMAND, *run, log=tmp_path / "log") as driver:
        assert driver.wait() == 1, f"{driver.tail()}\n{cluster.logs()}"
    assert "TG-EXECUTOR-PYTHON" in driver.tail()
    assert "No module named 'tidegate'" in driver.tail()


@pytest.mark.more
@pytest.mark.cluster
def test_packed_packages_are_enough_for_executors_that_have_none(
    cluster: StandaloneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    archive = tmp_path / "environment.tar.gz"
    subprocess.run([sys.executable, str(COMMAND), "pack", str(archive)], check=True, timeout=300)
    settings = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.executorEnv.TIDEGATE_PYTHON": bare_python(),
        "spark.executorEnv.PYTHONPATH": "",
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    for each in checked(cluster, "--archives", f"{archive}#environment", *conf):
        assert each["health"] == "OK", each
        assert all(f"{name} " in each["detail"] for name in ("tidegate", "msgspec", "pyarrow", "confluent_kafka")), each


def checked(cluster: StandaloneCluster, *options: str) -> list[dict[str, Any]]:
    """What `tidegate check --master` finds on executors."""
    command = [sys.executable, str(COMMAND), "check", "--master", cluster.url, *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    found = [each for each in json.loads(done.stdout) if "executor" in each["what"]]
    assert found, f"{done.stdout}\n{done.stderr}\n{cluster.logs()}"
    return found


def bare_python() -> str:
    """The Python that the virtual environment was made of."""
    return str(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"))


def rows_of(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """In the order of each partition."""
    return [json.loads(record.value or b"") for record in visible_now(broker.servers, topic)]


def counts_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The newest count of each digit. A count that comes twice, or after a higher one, was written by two runs."""
    newest: dict[str, int] = {}
    for row in rows:
        assert row["count"] > newest.get(row["digit"], 0), f"digit {row['digit']}: {rows}"
        newest[row["digit"]] = row["count"]
    return newest
