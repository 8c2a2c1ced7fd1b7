"""Checks whether brokers support what a sink needs: the requests that it sends, and the replicas of its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import HeartbeatRequest, OffsetFetchRequest
from kafka.protocol.metadata.api_versions import ApiVersionsRequest
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest
from kafka.protocol.metadata.metadata import MetadataRequest
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from tidegate.kafka.replies import Reply
from tidegate.kafka.wire import Wire

OLDEST = "3.0"
"""The first Kafka that tells whose transactions are open (KIP-664), which clean-up and every proof stand on."""
_TOPIC_RESOURCE = 2
_OPERATIONS = {"Read": 3, "Write": 4, "Describe": 8}
"""Numbers of the protocol (org.apache.kafka.common.acl.AclOperation)."""

_SENT: tuple[tuple[Any, int, int], ...] = (
    (AddOffsetsToTxnRequest, 0, 3),
    (DescribeConfigsRequest, 1, 4),
    (DescribeTransactionsRequest, 0, 0),
    (EndTxnRequest, 0, 4),
    (FindCoordinatorRequest, 1, 3),
    (HeartbeatRequest, 0, 4),
    (InitProducerIdRequest, 0, 5),
    (ListGroupsRequest, 0, 4),
    (ListTransactionsRequest, 0, 2),
    (MetadataRequest, 8, 8),
    (OffsetFetchRequest, 8, 8),
    (TxnOffsetCommitRequest, 3, 4),
)
"""Each request with the lowest and the highest version in which the sink sends it."""


def versions(wire: Wire) -> dict[int, tuple[int, int]]:
    """For each request number of the protocol, the lowest and the highest version that a broker supports."""
    answer = wire.ask(ApiVersionsRequest(client_software_name="tidegate", client_software_version="1"))
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def missing_requests(offered: Mapping[int, tuple[int, int]]) -> list[str]:
    """The requests of the sink that a broker with these versions does not support, such as `OffsetFetch 8`."""
    return [
        f"{request.__name__.removesuffix('Request')} {low if low == high else f'{low} to {high}'}"
        for request, low, high in _SENT
        if not _meet(offered.get(request.API_KEY), low, high)
    ]


def _meet(offered: tuple[int, int] | None, low: int, high: int) -> bool:
    return offered is not None and offered[0] <= high and low <= offered[1]


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """A topic as this user sees it. `operations`: what the user may do with it; None if the broker does not say.

    `copies`: the number of replicas of the partition with the fewest. `brokers`: how many brokers could have a replica.
    `partitions`: 0 if the broker does not say.
    """

    exists: bool
    operations: frozenset[int] | None
    copies: int
    brokers: int
    partitions: int = 0

    def allows(self, operation: str) -> bool:
        """True if the user may do this operation on the topic: "Read", "Write" or "Describe"."""
        return self.operations is None or _OPERATIONS[operation] in self.operations


def on_one_disk(seen: TopicSeen, in_sync: int) -> bool:
    """True if a row counts as written when only one broker has it, although other brokers could have a replica."""
    return seen.brokers > 1 and min(in_sync, seen.copies) == 1


def look_at(wire: Wire, topic: str, *, creating: bool = False) -> TopicSeen:
    """Ask the brokers about a topic. A topic that this user may not see is returned as one that allows no operation.

    `creating`: ask as a producer does before it writes, so that brokers with automatic creation create the topic.
    """
    answer = wire.ask(
        MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=creating,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
            min_version=8,
            max_version=8,
        )
    )
    (found,) = answer.topics
    hidden = found.error_code == Reply.TOPIC_AUTHORIZATION_FAILED
    told = found.authorized_operations
    return TopicSeen(
        exists=found.error_code not in _NO_TOPIC,
        operations=frozenset() if hidden else None if told is None else frozenset(map(int, told)),
        copies=min((len(each.replica_nodes) for each in found.partitions), default=0),
        brokers=len(answer.brokers),
        partitions=len(found.partitions),
    )


def min_in_sync(wire: Wire, topic: str) -> int | None:
    """`min.insync.replicas` of a topic; None if the user may not see it (needs DESCRIBE_CONFIGS)."""
    found = settings_of(wire, topic, ["min.insync.replicas"])
    return int(found["min.insync.replicas"]) if found else None


def settings_of(wire: Wire, topic: str, names: Sequence[str]) -> Mapping[str, str]:
    """The effective values of these settings of a topic; empty if the user may not see them (DESCRIBE_CONFIGS)."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(names)
    )
    (found,) = wire.ask(DescribeConfigsRequest(resources=[resource])).results
    return {each.name: str(each.value) for each in found.configs or ()} if found.error_code == Reply.NONE else {}


_NO_TOPIC = frozenset({Reply.UNKNOWN_TOPIC_OR_PARTITION, Reply.INVALID_TOPIC})
