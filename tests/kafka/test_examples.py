"""The examples do what their heads say, each in a process of its own as in a terminal of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Driver
from tests.support.today import turn
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import read_all

EXAMPLES = Path(__file__).parents[2] / "examples"
_SECONDS = 180.0


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / "place"))


@pytest.fixture(scope="module", autouse=True)
def measurements(broker: Broker) -> Iterator[subprocess.Popen[bytes]]:
    """A sender of 25 seconds of measurements, which works while the other example runs."""
    command = [sys.executable, str(EXAMPLES / "kafka_windows.py"), "--servers", broker.servers, "--send", "25"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as sender:
        yield sender
        sender.kill()


@turn(1, of=4)
@pytest.mark.timeout(300)
def test_rows_pass_through_a_kill_once_and_a_job_beside_it_prints_them(broker: Broker, tmp_path: Path) -> None:
    reading, shown = job("read_committed.py", broker, tmp_path, log="shown"), tmp_path / "shown"
    with reading, job("kafka_exactly_once.py", broker, tmp_path) as first:
        wait_for(lambda: len(started(tmp_path)) == 2, reading, first)
        send("kafka_exactly_once.py", broker, 300)
        wait_for(lambda: "row 0 " in shown.read_text(), reading, first)
        first.kill()
        send("kafka_exactly_once.py", broker, 100)
        with job("kafka_exactly_once.py", broker, tmp_path) as again:
            wait_for(lambda: len(printed(shown)) >= 400, reading, again)
            again.process.send_signal(signal.SIGINT)
            assert again.wait() == 0, again.tail()
        reading.process.send_signal(signal.SIGINT)
        assert reading.wait() == 0, reading.tail()
    sent = sorted(row.value or b"" for row in read_all(broker.servers, "topic_1"))
    assert len(sent) == 400
    assert sorted(row.value or b"" for row in read_all(broker.servers, "ws")) == sent
    assert sorted(printed(shown)) == [value.decode() for value in sent]


@turn(0, of=2)
@pytest.mark.timeout(300)
def test_kafka_windows_gives_each_window_once(
    broker: Broker, tmp_path: Path, measurements: subprocess.Popen[bytes]
) -> None:
    assert measurements.wait(_SECONDS) == 0
    with job("kafka_windows.py", broker, tmp_path, "--until", "caught-up") as driver:
        assert driver.wait() == 0, driver.tail()
    sent: dict[tuple[str, str], list[float]] = defaultdict(list)
    measured = values(broker, "measured")
    for each in measured:
        sent[tens_of(each["at"]), each["sensor"]].append(each["value"])
    final = max(at_of(each["at"]) for each in measured) - timedelta(seconds=5)
    seen = {(tens_of(row["from"]), row["sensor"]): row for row in values(broker, "averages")}
    assert seen.keys() == {each for each in sent if at_of(each[0]) + timedelta(seconds=10) <= final}
    assert seen, "25 seconds have a window that ends"
    for each, row in seen.items():
        assert row["measurements"] == len(sent[each])
        assert row["average"] == pytest.approx(sum(sent[each]) / len(sent[each]))


def job(name: str, broker: Broker, folder: Path, *arguments: str, log: str = "log") -> Driver:
    return Driver(EXAMPLES / name, "--servers", broker.servers, *arguments, log=folder / log)


def send(name: str, broker: Broker, count: int) -> None:
    run(name, "--servers", broker.servers, "--send", str(count))


def started(folder: Path) -> list[Path]:
    return list(folder.glob(".tidegate/*/queries/*/g1/ledger/start"))


def printed(log: Path) -> list[str]:
    """The rows in the tables that were printed."""
    return re.findall(r"│ (row \d+) +│", log.read_text())


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(broker: Broker, topic: str) -> list[dict[str, Any]]:
    return [json.loads(row.value or b"") for row in read_all(broker.servers, topic)]


def at_of(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def second_of(text: str) -> str:
    return at_of(text).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def tens_of(text: str) -> str:
    at = at_of(text)
    return second_of(at.replace(second=at.second // 10 * 10, microsecond=0).isoformat())


def wait_for(condition: Callable[[], bool], *jobs: Driver) -> None:
    """Until it is true. A job that ends before, or the end of the time, is told with what the jobs have printed."""
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end or any(each.process.poll() is not None for each in jobs):
            raise AssertionError("\n\n".join(f"exit code {each.process.poll()}:\n{each.tail()}" for each in jobs))
        time.sleep(0.1)
