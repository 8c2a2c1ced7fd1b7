"""Jobs on a standalone cluster: drivers and executors are killed, and every record is compared."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.seen import visible_now
from tests.support.driver import Driver
from tests.support.s3 import S3Server
from tests.support.standalone import StandaloneCluster
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import TopicRecord, make_topic, produce

PROGRAM = Path(__file__).with_name("cluster_program.py")
NUMBERS = 180


@pytest.mark.timeout(300)
def test_a_job_on_a_cluster_is_exact_when_its_driver_and_an_executor_are_killed(
    standalone: StandaloneCluster, broker: Broker, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in standalone.environment.items():
        monkeypatch.setenv(name, value)
    numbers, copies, counts = (make_topic(broker.servers, 2) for _ in range(3))
    produce(broker.servers, numbers, [TopicRecord(str(number).encode()) for number in range(NUMBERS)])
    arguments = (broker.servers, numbers, copies, counts, str(s3.folder()))
    with Driver(PROGRAM, *arguments, log=tmp_path / "log", failpoints="decision.before@1=crash") as driver:
        assert driver.wait() == -signal.SIGKILL, f"{driver.tail()}\n{standalone.logs()}"
    with Driver(PROGRAM, *arguments, log=tmp_path / "log", failpoints="prepared.before@2=pause") as driver:
        driver.wait_until_stopped()
        standalone.kill_executor()
        os.kill(driver.process.pid, signal.SIGCONT)
        assert driver.wait() == 0, f"{driver.tail()}\n{standalone.logs()}"
    copied = rows_of(broker, copies)
    assert sorted(int(row["number"]) for row in copied) == list(range(NUMBERS))
    assert counts_of(rows_of(broker, counts)) == {str(digit): NUMBERS // 10 for digit in range(10)}


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
