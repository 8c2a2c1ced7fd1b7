"""Errors with a next step for brokers that refuse a client or one of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.clients import Clients
from tidegate.kafka.listener import hint, listener_at
from tidegate.kafka.right import Right

_NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})
_BY_NAME: Mapping[str, str] = {
    "_AUTHENTICATION": "the brokers do not know this user or password: mend sasl.username, sasl.password",
    "_SSL": "give the authority that has signed the brokers' certificate as ssl.ca.location, and the name that"
    " stands in it as the address",
}
_OTHERWISE = "see whether the brokers run, the address and options are right and the rights are given"


def unreachable(
    expected: str, error: KafkaException, where: str, *, right: Right | None = None, clients: Clients | None = None
) -> TidegateError:
    """The error for a call of a Kafka client that failed.

    `right`: the right that the user needs for the call. `clients`: given for a client that never had an answer; its
    listener is then asked why it accepts no client.
    """
    return TidegateError(
        Code.KAFKA_UNREACHABLE,
        expected=expected,
        found=_said(error),
        where=where,
        next_step=_allowed(error, right) or remedy(error, clients) or _OTHERWISE,
    )


def cluster_unusable(found: str, where: str, next_step: str) -> TidegateError:
    """The cluster of a sink does not answer, or refuses its client."""
    return TidegateError(
        Code.SINK_UNUSABLE, expected="a Kafka cluster that answers", found=found, where=where, next_step=next_step
    )


def _said(error: KafkaException) -> str:
    """The error's text. All texts of the client for brokers that do not answer become one."""
    if not error.args or code_of(error) == KafkaError._TIMED_OUT:  # pyright: ignore[reportPrivateUsage]
        return "no answer in time"
    return str(error.args[0])


def remedy(error: KafkaException, clients: Clients | None) -> str | None:
    """The next step that the listener and the error suggest; None if neither gives one."""
    listener = None if clients is None else listener_at(clients.servers)
    settings: Mapping[str, Any] = {} if clients is None else clients.options
    told = None if listener is None else hint(settings, listener)
    return told or _BY_NAME.get(error.args[0].name() if error.args else "")


def _allowed(error: KafkaException, right: Right | None) -> str | None:
    return f"kafka-acls {right.grant()}" if right is not None and code_of(error) in _NOT_ALLOWED else None


def code_of(error: KafkaException) -> int | None:
    """The number of a Kafka error; None if the error has none."""
    inner = error.args[0] if error.args else None
    return inner.code() if isinstance(inner, KafkaError) else None


def shortly(data: bytes | None) -> str:
    """The beginning of a key or value, short enough for an error."""
    if data is None:
        return "none"
    text = repr(data[:_SHOWN_BYTES].decode("utf-8", "replace"))
    return text if len(data) <= _SHOWN_BYTES else f"{text}..."


_SHOWN_BYTES = 80
