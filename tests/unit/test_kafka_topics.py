"""What the source asks the brokers ends, whatever becomes of the answer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tidegate import TidegateError
from tidegate.core.errors import Code
from tidegate.kafka.clients import Clients
from tidegate.sources.kafka import topics
from tidegate.sources.kafka.topics import PartitionEnd, Topics, TopicSelection

NEVER: Future[Any] = Future()

QUESTIONS: dict[str, tuple[str, Any, Callable[[Topics], object]]] = {
    "describe": ("describe_topics", "lines", lambda asked: asked.find(TopicSelection(("lines",)))),
    "offsets": (
        "list_offsets",
        TopicPartition("lines", 0),
        lambda asked: asked.at([("lines", 0)], PartitionEnd.LATEST),
    ),
    "group": ("list_consumer_group_offsets", "group", lambda asked: asked.committed([("lines", 0)], "group")),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_client_that_never_tells_is_not_waited_for_without_an_end(question: str, monkeypatch: pytest.MonkeyPatch):
    """An epoch would never begin, and nothing would say why."""
    method, name, ask = QUESTIONS[question]
    monkeypatch.setattr(topics, "_NO_ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(AdminClient, method, lambda *_, **__: {name: NEVER})
    asked = Topics(Clients("127.0.0.1:1", {}), "job j, source s")
    with pytest.raises(TidegateError, match="no answer in time") as raised:
        ask(asked)
    assert raised.value.catalogue_entry is Code.KAFKA_UNREACHABLE
