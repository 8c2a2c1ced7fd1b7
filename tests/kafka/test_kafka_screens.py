"""What a user sees of mistakes with a broker, from the first line on the screen to the last."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.screen import screen_of
from tidegate.testing.kafka import Broker

PROGRAM = """
from tidegate import FileSink, Job, KafkaSource

job = Job("words", checkpointing_dir="checkpoints", checkpointing_interval=0)
rows = job.source("in", KafkaSource("SERVERS", topics="nowhere"))
job.query("copy", rows.select("offset"), sinks=[FileSink("out", "out", format="json")])
job.run(until="caught-up")
"""


def screen(folder: Path, servers: str) -> tuple[int, str]:
    (folder / "app.py").write_text(PROGRAM.replace("SERVERS", servers))
    code, text = screen_of([sys.executable, "app.py"], folder)
    return code, text.replace(servers, "SERVERS")


@pytest.mark.more
def test_an_unknown_topic(tmp_path: Path, broker: Broker):
    assert screen(tmp_path, broker.servers) == (1, UNKNOWN)


@pytest.mark.more
def test_a_broker_that_is_down(tmp_path: Path):
    assert screen(tmp_path, "127.0.0.1:1") == (1, DOWN)


UNKNOWN = """\
TG-KAFKA-TOPIC-MISSING: a topic or partition that a source reads, or a sink writes, does not exist
  expected: topic nowhere
  found:    no such topic
  where:    job words, source in, SERVERS
  next:     create it, or correct the source's topics, pattern or partitions
"""
DOWN = """\
TG-KAFKA-UNREACHABLE: the brokers did not answer, or refused
  expected: to describe topic nowhere
  found:    no answer in time
  where:    job words, source in, SERVERS
  next:     see whether the brokers run, the address and options are right and the rights are given
"""
