"""A job with a Kafka sink is drained: its open windows are in the topic once, as in the table of the same epochs."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.test_due_window import write_events
from tests.integration.place import wait_until
from tests.jobs.folders import tidegate
from tests.kafka.seen import open_transactions, visible_now
from tests.kafka.test_kafka_kills import ids_of
from tests.support.driver import Driver, numbers
from tidegate.checkpoints.drained import is_drained
from tidegate.storages.schemes import Folder
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

PROGRAM = Path(__file__).with_name("drain_program.py")
WINDOWS = [("00:00:00", 1), ("00:00:10", 1), ("00:00:20", 1)]


@pytest.mark.more
@pytest.mark.timeout(300)
@pytest.mark.parametrize("killed_at", [None, "commit.before", "commit.after"])
def test_open_windows_are_in_the_topic_once_after_a_drain(tmp_path: Path, broker: Broker, killed_at: str | None):
    """Where the driver is killed, the last epoch is decided by then, and its transactions wait in the broker."""
    topic, log = make_topic(broker.servers), tmp_path / "log"
    job, program = tmp_path / "checkpoints/exact", (PROGRAM, str(tmp_path), broker.servers, topic)
    write_events(tmp_path, 0, "00:00:01", "00:00:16", "00:00:21")
    said: list[tuple[int, str]] = []
    failpoints = "" if killed_at is None else f"{killed_at}@2=crash"
    with Driver(*program, log=log, failpoints=failpoints) as driver:
        wait_until(lambda: numbers(job / "queries/windows/g1/ledger/done")[-1:] == [1], "the first window closed")
        ask = ("stop", "exact", "--drain", "--dir", str(job.parent))
        asker = threading.Thread(target=lambda: said.append(tidegate(*ask)))
        asker.start()
        returned = driver.wait()
        asker.join()
    if killed_at is None:
        assert (returned, said[0][0]) == (0, 0), said
    else:
        assert (said[0][0], is_drained(Folder.of(job))) == (1, False), said
        with Driver(*program, log=log) as driver:
            assert driver.wait() == 0, driver.tail()
    assert is_drained(Folder.of(job))
    assert open_transactions(broker.servers, ids_of(tmp_path)) == []
    rows = [json.loads(row.value or b"") for row in visible_now(broker.servers, topic)]
    assert sorted((row["start"], row["count"]) for row in rows) == WINDOWS
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        assert sorted(database.execute("SELECT start, count FROM rows")) == WINDOWS
