"""The connections of this process for requests that no client offers: one for each cluster and login."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.clients import Clients
from tidegate.kafka.cluster import Reaching
from tidegate.kafka.replies import KafkaRefused
from tidegate.kafka.wire import Wire


@contextmanager
def reached(sink: Reaching) -> Generator[Wire]:
    """A context with the connection of a sink.

    Raises SINK_UNUSABLE if the cluster cannot be reached or refuses a request.
    """
    try:
        yield wire_of(sink.clients)
    except KafkaRefused as error:
        raise TidegateError(
            Code.SINK_UNUSABLE,
            expected="a Kafka cluster that answers, and lets this user look at its transactions and groups",
            found=str(error),
            where=f"sink {sink.uid!r}: {sink.clients.servers}",
            next_step="repair the cluster or the user's rights, then start again: nothing is lost",
        ) from None


def wire_of(clients: Clients) -> Wire:
    """The connection for these clients. Raises KafkaRefused.

    A connection with a refused login is opened again, because its secret may have changed. An unreachable cluster
    blocks only callers that need this cluster.
    """
    key = (os.getpid(), clients.servers, *sorted(clients.options.items()))
    with _LOCK:
        opening = _OPENING.setdefault(key, threading.Lock())
    with opening:
        if key in _WIRES and _WIRES[key].is_locked_out:
            _WIRES.pop(key).close()
        if key not in _WIRES:
            _WIRES[key] = Wire(clients)
        return _WIRES[key]


_WIRES: dict[tuple[object, ...], Wire] = {}
_OPENING: dict[tuple[object, ...], threading.Lock] = {}
"""One lock for each of `_WIRES`: opening one may take as long as the timeout of its servers."""
_LOCK = threading.Lock()
