"""kill -9 in the middle of an epoch of several seconds, which a source that is behind has by default."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.place import wait_until
from tests.kafka.seen import visible_now
from tests.support.driver import Driver, numbers
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import PARTITIONS, TopicRecord, make_topic, produce

PROGRAM = Path(__file__).with_name("backlog_program.py")
RECORDS = 400_000


@pytest.mark.more
@pytest.mark.timeout(600)
def test_kill_9_inside_a_backlog_epoch_of_seconds_loses_and_repeats_no_record(tmp_path: Path, broker: Broker):
    source, out = make_topic(broker.servers, PARTITIONS), make_topic(broker.servers, PARTITIONS)
    values = [json.dumps({"id": number}).encode() for number in range(RECORDS)]
    produce(broker.servers, source, [TopicRecord(value, partition=at % PARTITIONS) for at, value in enumerate(values)])
    arguments, log = (str(tmp_path), broker.servers, source, out), tmp_path / "log"
    query = tmp_path / "checkpoints/backlog/queries/copy/g1"
    with Driver(PROGRAM, *arguments, log=log) as driver:
        wait_until(lambda: (query / "spark/offsets/1").exists(), "the second epoch")
        time.sleep(1.5)
        assert numbers(query / "spark/commits") == [0], "the second epoch is under way, and takes seconds"
        driver.kill()
    with Driver(PROGRAM, *arguments, log=log) as driver:
        assert driver.wait() == 0, driver.tail()
    lasted = [seconds_of(query, epoch) for epoch in numbers(query / "spark/commits")]
    print(f"{RECORDS} records in {len(lasted)} epochs of {', '.join(f'{each:.1f}' for each in lasted)} s")
    assert max(lasted[2:]) > 2, "epochs of seconds"
    written = sorted(json.loads(row.value or b"")["id"] for row in visible_now(broker.servers, out))
    assert written == list(range(RECORDS))
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        assert [number for (number,) in database.execute("SELECT id FROM rows ORDER BY id")] == written


def seconds_of(query: Path, epoch: int) -> float:
    begin, end = ((query / "spark" / log / str(epoch)).stat().st_mtime for log in ("offsets", "commits"))
    return end - begin
