"""`tidegate forget` of a job that has written into a topic, killed between its steps."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from tests.kafka.seen import open_transactions, visible_now
from tests.support.killed_forgetting import Killed, kill_before
from tests.support.killed_job import QUERY, KilledJob, numbers_of
from tidegate import operate
from tidegate.core.records import Evidence
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic


def test_what_a_topic_keeps_of_a_job_goes_whatever_step_a_kill_comes_before(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epoch 0 is visible and proven, epoch 1 is decided, epoch 2 is prepared; both of these hold transactions open."""
    monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / "place"))
    topic = make_topic(broker.servers)
    sink = KafkaSink("files", broker.servers, topic=topic, transactional_id_prefix=topic, transaction_timeout=600)
    job = KilledJob(tmp_path, extra=sink)
    first = job.prepare(0)
    job.log(0)
    job.decide(0)
    for each in (job.table, sink):
        each.commit([committable for committable in first if committable.attempt.sink.sink == each.uid])
    job.prepare(1)
    job.log(1)
    job.decide(1)
    job.prepare(2)
    in_topic = [each for each in first if each.attempt.sink.sink == sink.uid]
    assert open_transactions(broker.servers, topic) != []
    assert [sink.evidence(each) for each in in_topic] == [Evidence.PRESENT] * len(in_topic)

    kills = 0
    for fatal in count():
        with monkeypatch.context() as patched:
            passed = kill_before(patched, fatal, SQLiteSink, KafkaSink)
            try:
                operate.open_to_forget(job.root, "job").forget()
                break
            except Killed:
                kills += 1
        if not (job.folder / "job.json").exists() and not (job.folder / "closing").exists():
            break  # the last step was behind all that counts
        if passed == ["put_if_absent"]:
            assert sink.position(QUERY.sink(sink.uid)) is not None, "before the record nothing has changed"
    assert kills >= 5

    assert operate.jobs(job.root) == ()
    assert open_transactions(broker.servers, topic) == []
    assert sink.position(QUERY.sink(sink.uid)) is None
    assert [sink.evidence(each) for each in in_topic] == [Evidence.ABSENT] * len(in_topic)
    shown = sorted(json.loads(row.value or b"")["id"] for row in visible_now(broker.servers, topic))
    assert shown == sorted(numbers_of(0)), "the rows that were visible stay, and nothing else becomes visible"
