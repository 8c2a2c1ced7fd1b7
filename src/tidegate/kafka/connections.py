"""The connections of one process to a Kafka cluster. It finds coordinators and retries requests.

A request that changes nothing is retried until a deadline, while a coordinator moves or does not answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import kafka.errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest
from kafka.protocol.metadata.metadata import MetadataRequest

from tidegate.kafka.clients import Clients
from tidegate.kafka.replies import PASSING, CoordinatorType, KafkaRefused, Reply
from tidegate.kafka.wire_options import wire_settings

ResultT = TypeVar("ResultT")

PATIENCE_SECONDS = 30.0
"""How long a request is tried again before the cluster counts as out of reach."""
_PAUSE_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_AT_ONCE = 10_000
"""Requests on one connection without an answer: all of an epoch's are sent at once."""
_ANSWER_BYTES = 1 << 30
"""The largest answer that is taken: a list of all groups of a large cluster has megabytes."""
_IDS_AT_ONCE = 500


class Connections:
    """The connections of one process to a cluster. Threads may share them. Methods raise KafkaRefused."""

    def __init__(self, clients: Clients, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience = patience_seconds
        settings = {
            **wire_settings(clients),
            "request_timeout_ms": int(patience_seconds * 1000),
            "max_in_flight_requests_per_connection": _AT_ONCE,
            "receive_message_max_bytes": _ANSWER_BYTES,
        }
        self._net: Any = NetworkSelector(**settings)
        self._net.start()
        self._manager: Any = KafkaConnectionManager(self._net, **settings)
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self.is_locked_out = False
        """Whether a login was refused: this client would not try again, with whatever secret."""
        try:
            self._manager.bootstrap(int(patience_seconds * 1000))
        except kafka_errors.KafkaError as error:
            self.close()
            raise KafkaRefused("connect", Reply.NO_ANSWER, str(error)) from None

    def close(self) -> None:
        self._manager.close()
        self._net.stop()

    # --- any broker ----------------------------------------------------------------------------------------

    def ask(self, request: Any) -> Any:
        """Send `request` to any broker, and retry while none answers. Returns the answer, even if it is an error code.

        Only for requests that change nothing.
        """

        async def once() -> Any:
            return await self._ask(request, None)

        return self._patiently(once)

    # --- coordinators --------------------------------------------------------------------------------------

    async def _coordinators_of(self, topic: str) -> list[int]:
        """The brokers that lead a partition of an internal topic. Each is a coordinator, so all of them must be asked.

        If the topic does not exist, or this user may not see it: all brokers that the cluster has now.
        """
        asked = MetadataRequest.MetadataRequestTopic(name=topic)
        answer = await self._ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False, max_version=8), None)
        leaders = {partition.leader_id for each in answer.topics for partition in each.partitions}
        if -1 in leaders:
            raise Passing("Metadata", Reply.COORDINATOR_NOT_AVAILABLE, f"a partition of {topic} has no leader")
        return sorted(leaders or {broker.node_id for broker in answer.brokers})

    async def _by_coordinator(self, kind: CoordinatorType, keys: Iterable[str]) -> list[tuple[int, list[str]]]:
        """The keys grouped by their coordinators. Each group is small enough for one request."""
        found: dict[int, list[str]] = {}
        for key in keys:
            found.setdefault(await self._coordinator(kind, key), []).append(key)
        return [(node, names[at : at + _IDS_AT_ONCE]) for node, names in found.items() for at in _steps(names)]

    async def _coordinator(self, kind: CoordinatorType, key: str) -> int:
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        answer = await self._ask(FindCoordinatorRequest(key=key, key_type=kind.value, max_version=3), None)
        self._must("FindCoordinator", answer.error_code, key)
        node = self._manager.cluster.add_coordinator(answer, kind, key, synthesize_node_id=False)
        self._coordinators[kind, key] = node
        return node

    async def _ask_coordinator(self, request: Any, kind: CoordinatorType, key: str) -> Any:
        return await self._ask(request, await self._coordinator(kind, key))

    async def _ask(self, request: Any, node: int | None) -> Any:
        return await self._manager.send(request, node_id=node)

    def _must(self, request: str, code: int, detail: str = "") -> None:
        if code in PASSING:
            raise Passing(request, code, detail)
        if code != Reply.NONE:
            raise KafkaRefused(request, code, detail)

    def _patiently(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Repeat the call until its answer is final, or until the deadline."""
        end, tries = time.monotonic() + self._patience, 0
        while True:
            try:
                return self._run(ask)
            except Passing as error:
                refused = KafkaRefused(error.request, error.code, error.detail)
            except kafka_errors.KafkaError as error:
                self._note(error)
                if not (error.retriable or type(error).__name__ in _NOT_KNOWN_YET):
                    raise KafkaRefused(type(error).__name__, Reply.NO_ANSWER, str(error)) from None
                refused = KafkaRefused("no answer", Reply.NO_ANSWER, f"{type(error).__name__} {error}")
            self._coordinators.clear()
            if time.monotonic() >= end:
                raise refused
            time.sleep(_PAUSE_SECONDS[min(tries, len(_PAUSE_SECONDS) - 1)])
            tries += 1

    def _note(self, error: BaseException) -> None:
        self.is_locked_out = self.is_locked_out or type(error).__name__ in _LOCKED_OUT

    def _run(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return cast("ResultT", self._manager.run(ask))


class Passing(Exception):
    """An answer that may change if the request is sent again."""

    def __init__(self, request: str, code: int, detail: str) -> None:
        self.request, self.code, self.detail = request, code, detail
        super().__init__(request)


# Every reconnection is an error in this client's own log; what matters here is what a request comes to. And its log of
# requests has the password of a login in it: whatever level the program sets, these say no more than warnings.
logging.getLogger("kafka").addHandler(logging.NullHandler())
for _name in ("kafka", "kafka.protocol.parser", "kafka.net.connection"):
    logging.getLogger(_name).setLevel(logging.WARNING)

_LOCKED_OUT = frozenset({"AuthenticationError", "SaslAuthenticationFailedError", "AuthorizationError"})
_NOT_KNOWN_YET = frozenset({"UnknownBrokerIdError"})
"""Errors that the client calls final, and that pass when it has asked for the cluster's members again."""


def _steps(names: Sequence[str]) -> range:
    return range(0, len(names), _IDS_AT_ONCE)
