"""The examples do what their heads say, each in a process of its own as in a terminal of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Driver
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import read_all

EXAMPLES = Path(__file__).parents[2] / "examples"
_SECONDS = 90.0


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / "place"))


@pytest.mark.more
@pytest.mark.timeout(300)
def test_kafka_exactly_once_is_killed_and_started_again_and_no_line_is_counted_twice(
    broker: Broker, tmp_path: Path
) -> None:
    with job("kafka_exactly_once.py", broker, tmp_path):
        wait_for(lambda: any(tmp_path.glob(".tidegate/**/ledger/start")))
        send("kafka_exactly_once.py", broker, 600)
        wait_for(lambda: bool(numbered_done(tmp_path)))
    done_before = len(numbered_done(tmp_path))
    send("kafka_exactly_once.py", broker, 100)
    time.sleep(5)  # of event time: what was sent is final once a line of after it has come
    send("kafka_exactly_once.py", broker, 1)
    with job("kafka_exactly_once.py", broker, tmp_path, "--until", "caught-up") as again:
        assert again.wait() == 0, again.tail()
    sent: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in values(broker, "lines"):
        sent[second_of(line["at"]), line["user"]].append(line["number"])
    newest = max(second for second, _ in sent)
    wanted = sorted((*each, len(numbers), sum(numbers)) for each, numbers in sent.items() if each[0] < newest)
    seen = [(second_of(row["second"]), row["user"], row["lines"], row["sum"]) for row in read_committed(broker)]
    assert sorted(seen) == wanted
    assert done_before < len(numbered_done(tmp_path)), "it went on where it was"


@pytest.mark.more
@pytest.mark.timeout(300)
def test_kafka_windows_gives_each_window_once(broker: Broker, tmp_path: Path) -> None:
    send("kafka_windows.py", broker, 25)
    with job("kafka_windows.py", broker, tmp_path, "--until", "caught-up") as driver:
        assert driver.wait() == 0, driver.tail()
    sent: dict[tuple[str, str], list[float]] = defaultdict(list)
    measured = values(broker, "measured")
    for each in measured:
        sent[tens_of(each["at"]), each["sensor"]].append(each["value"])
    final = max(at_of(each["at"]) for each in measured) - timedelta(seconds=5)
    seen = {(tens_of(row["from"]), row["sensor"]): row for row in read_committed(broker, "averages")}
    assert seen.keys() == {each for each in sent if at_of(each[0]) + timedelta(seconds=10) <= final}
    assert seen, "25 seconds have a window that ends"
    for each, row in seen.items():
        assert row["measurements"] == len(sent[each])
        assert row["average"] == pytest.approx(sum(sent[each]) / len(sent[each]))


def job(name: str, broker: Broker, folder: Path, *arguments: str) -> Driver:
    return Driver(EXAMPLES / name, "--servers", broker.servers, *arguments, log=folder / "log")


def send(name: str, broker: Broker, count: int) -> None:
    run(name, "--servers", broker.servers, "--send", str(count))


def read_committed(broker: Broker, topic: str = "counted") -> list[dict[str, Any]]:
    shown = run("read_committed.py", "--servers", broker.servers, "--topic", topic, "--seconds", "8")
    return [json.loads(line[line.index("{") :]) for line in shown.splitlines() if "{" in line]


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(broker: Broker, topic: str) -> list[dict[str, Any]]:
    return [json.loads(row.value or b"") for row in read_all(broker.servers, topic)]


def numbered_done(folder: Path) -> set[str]:
    return {file.name for file in folder.glob(".tidegate/**/ledger/done/*") if file.name.isdigit()}


def at_of(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def second_of(text: str) -> str:
    return at_of(text).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def tens_of(text: str) -> str:
    at = at_of(text)
    return second_of(at.replace(second=at.second // 10 * 10, microsecond=0).isoformat())


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.1)
