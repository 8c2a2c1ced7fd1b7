"""Finds out which rights a sink's user has, by sending requests.

Each request is one that the sink itself sends, but with an unused name. A broker checks the rights first, and then
finds nothing to do, so the requests have no effect. Access control lists are not read: some authorizers do not use
them, and reading them needs a right that this user may not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.consumer import HeartbeatRequest, OffsetFetchRequest
from kafka.protocol.producer.transaction import AddOffsetsToTxnRequest

from tidegate.kafka.brokers import TopicSeen
from tidegate.kafka.replies import Reply
from tidegate.kafka.right import Right
from tidegate.kafka.wire import Wire


def missing_by_name(wire: Wire, name: str, begin: str) -> Iterator[Right]:
    """The rights that the user lacks on transactional ids and on the groups of the same names.

    `name`: an unused transactional id of the sink's form. `begin`: the common start of all ids of the sink. Raises
    KafkaRefused if no broker answers.
    """
    for probe in _PROBES:
        if probe.refused(wire.ask(probe.request(name))) == probe.refusal:
            yield Right(probe.operation, probe.kind, begin, is_prefix=True)


def missing_on_topic(topic: str, seen: TopicSeen) -> list[Right]:
    """The rights that the user lacks on a topic. READ is for the evidence: each transaction commits an offset of the
    topic.
    """
    needed = ("Describe", "Write", "Read")
    return [Right(each, "topic", topic) for each in needed if not seen.allows(each)]


@dataclass(frozen=True, slots=True)
class _Probe:
    """A request, and the error that a broker returns if the right is missing."""

    operation: str
    kind: str
    request: Callable[[str], Any]
    refused: Callable[[Any], int]
    refusal: Reply


def _add_offsets(name: str) -> Any:
    return AddOffsetsToTxnRequest(transactional_id=name, producer_id=0, producer_epoch=0, group_id=name, max_version=3)


def _fetch_offsets(name: str) -> Any:
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=None)
    return OffsetFetchRequest(groups=[group], require_stable=False, min_version=8, max_version=8)


def _heartbeat(name: str) -> Any:
    return HeartbeatRequest(group_id=name, generation_id=0, member_id="nobody", group_instance_id=None)


_PROBES = (
    _Probe(
        "Describe",
        "transactional-id",
        lambda name: DescribeTransactionsRequest(transactional_ids=[name]),
        lambda answer: answer.transaction_states[0].error_code,
        Reply.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    _Probe(
        "Write",
        "transactional-id",
        _add_offsets,
        lambda answer: answer.error_code,
        Reply.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    _Probe(
        "Describe",
        "group",
        _fetch_offsets,
        lambda answer: answer.groups[0].error_code,
        Reply.GROUP_AUTHORIZATION_FAILED,
    ),
    _Probe("Read", "group", _heartbeat, lambda answer: answer.error_code, Reply.GROUP_AUTHORIZATION_FAILED),
)
