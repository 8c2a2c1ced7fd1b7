"""Error codes in the answers of brokers, as far as tidegate distinguishes them."""

from __future__ import annotations

from enum import IntEnum

import kafka.errors as kafka_errors


class Reply(IntEnum):
    """Error codes of the protocol that tidegate distinguishes (kafka.apache.org/protocol, "Error Codes")."""

    NO_ANSWER = -2
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    GROUP_ID_NOT_FOUND = 69
    UNSTABLE_OFFSET_COMMIT = 88
    PRODUCER_FENCED = 90
    TRANSACTIONAL_ID_NOT_FOUND = 105


PASSING = frozenset(
    {
        Reply.NO_ANSWER,
        Reply.UNKNOWN_TOPIC_OR_PARTITION,
        Reply.REQUEST_TIMED_OUT,
        Reply.COORDINATOR_LOAD_IN_PROGRESS,
        Reply.COORDINATOR_NOT_AVAILABLE,
        Reply.NOT_COORDINATOR,
        Reply.CONCURRENT_TRANSACTIONS,
        Reply.TRANSACTION_COORDINATOR_FENCED,
        Reply.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Answers after which the same request may succeed."""


class KafkaRefused(Exception):
    """Raised for an answer that a retry does not change, or if the cluster could not be reached until the deadline."""

    def __init__(self, request: str, code: int, detail: str = "") -> None:
        self.code = code
        name = Reply(code).name if code in _CODES else getattr(kafka_errors.for_code(code), "__name__", str(code))
        super().__init__(f"{request}: {name}{f' ({detail})' if detail else ''}")


_CODES = frozenset(Reply)


class CoordinatorType(IntEnum):
    """The kind of a key. Kafka looks up the coordinator of a key by its kind."""

    GROUP = 0
    TRANSACTION = 1
