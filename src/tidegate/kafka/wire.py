"""The requests of Kafka's protocol that no client offers: to end, describe, fence and prove others' transactions.

Everything here that reads, and fencing, is tried again until a deadline while a coordinator moves or is away. EndTxn
is sent once, and its answer given as it came: what an answer means is the sink's to say.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import kafka.errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata.find_coordinator import FindCoordinatorRequest
from kafka.protocol.metadata.metadata import MetadataRequest
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from tidegate.kafka.clients import Clients
from tidegate.kafka.replies import PASSING, CoordinatorType, KafkaRefused, Reply
from tidegate.kafka.transactions import CoordinatorState, OffsetMark, Producer, TransactionDescription
from tidegate.kafka.wire_options import wire_settings

ResultT = TypeVar("ResultT")

PATIENCE_SECONDS = 30.0
"""How long a request is tried again before the cluster counts as out of reach."""
MARK_PARTITION = 0
"""Where a mark stands in its topic: every topic has this partition."""
_PAUSE_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_AT_ONCE = 10_000
"""Requests on one connection without an answer: all of an epoch's are sent at once."""
_ANSWER_BYTES = 1 << 30
"""The largest answer that is taken: a list of all groups of a large cluster has megabytes."""
_IDS_AT_ONCE = 500
_END_TXN_AT_MOST = 4
"""Version 5 raises the producer epoch, and on a cluster with transaction.version 0 jams the transaction."""
_BEFORE_IMPLICIT_ADD = {AddOffsetsToTxnRequest: 3, TxnOffsetCommitRequest: 4}


class Wire:
    """Connections of one process to a cluster. Threads may share one. Raises KafkaRefused."""

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

    # --- transactions --------------------------------------------------------------------------------------

    def fence(self, transactional_id: str, timeout_ms: int) -> Producer:
        """InitProducerId: whatever is open under this id is aborted, and every older producer of it fenced."""

        async def ask() -> Producer:
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, max_version=5
            )
            answer = await self._ask_coordinator(request, CoordinatorType.TRANSACTION, transactional_id)
            self._must("InitProducerId", answer.error_code, transactional_id)
            return Producer(transactional_id, answer.producer_id, answer.producer_epoch)

        return self._patiently(ask)

    def describe(self, transactional_ids: Iterable[str], *, settled: bool = False) -> dict[str, TransactionDescription]:
        """How these ids stand; those that their coordinator does not know are left out. With `settled`, waits while
        a transaction is being ended."""

        async def ask() -> dict[str, TransactionDescription]:
            found: dict[str, TransactionDescription] = {}
            for node, names in await self._by_coordinator(CoordinatorType.TRANSACTION, transactional_ids):
                answer = await self._ask(DescribeTransactionsRequest(transactional_ids=names), node)
                for each in answer.transaction_states:
                    if each.error_code != Reply.TRANSACTIONAL_ID_NOT_FOUND:
                        self._must("DescribeTransactions", each.error_code, each.transactional_id)
                        found[each.transactional_id] = _described(each)
            if settled and any(each.state is CoordinatorState.ENDING for each in found.values()):
                raise _Passing("DescribeTransactions", Reply.CONCURRENT_TRANSACTIONS, "")
            return found

        return self._patiently(ask)

    def open_transactions(self) -> list[tuple[str, int]]:
        """(transactional id, producer id) of every open transaction, on all coordinators; a silent one is an error."""

        async def ask() -> list[tuple[str, int]]:
            found: list[tuple[str, int]] = []
            for node in await self._coordinators_of(_TRANSACTIONS_TOPIC):
                request = ListTransactionsRequest(state_filters=[CoordinatorState.OPEN.value], producer_id_filters=[])
                answer = await self._ask(request, node)
                self._must("ListTransactions", answer.error_code)
                found += [(each.transactional_id, each.producer_id) for each in answer.transaction_states]
            return found

        return self._patiently(ask)

    def commit(self, producers: Sequence[Producer]) -> list[int]:
        """EndTxn for all at once, each sent one time. The error codes, in order; NO_ANSWER where none came."""

        async def ask() -> list[int]:
            sent = [await self._start_ending(producer) for producer in producers]
            return [await self._ending(producer, answer) for producer, answer in zip(producers, sent, strict=True)]

        return self._run(ask)

    async def _start_ending(self, producer: Producer) -> Any:
        request = EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=True,
            max_version=_END_TXN_AT_MOST,
        )
        try:
            node = await self._coordinator(CoordinatorType.TRANSACTION, producer.transactional_id)
            return self._manager.send(request, node_id=node)
        except _NOT_SENT as error:
            self._note(error)
            return error

    async def _ending(self, producer: Producer, answer: Any) -> int:
        try:
            if isinstance(answer, Exception):
                raise answer
            code = int((await answer).error_code)
        except _NOT_SENT as error:
            self._note(error)
            code = Reply.NO_ANSWER
        if code in PASSING:
            self._coordinators.pop((CoordinatorType.TRANSACTION, producer.transactional_id), None)
        return code

    # --- evidence ------------------------------------------------------------------------------------------

    def send_mark(self, producer: Producer, mark: OffsetMark) -> None:
        """Make `mark` part of the producer's open transaction: it is committed with it, or not at all."""

        async def add() -> None:
            request = AddOffsetsToTxnRequest(
                transactional_id=producer.transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                group_id=mark.group,
                max_version=_BEFORE_IMPLICIT_ADD[AddOffsetsToTxnRequest],
            )
            answer = await self._ask_coordinator(request, CoordinatorType.TRANSACTION, producer.transactional_id)
            self._must("AddOffsetsToTxn", answer.error_code, producer.transactional_id)

        async def write() -> None:
            answer = await self._ask_coordinator(_mark_request(producer, mark), CoordinatorType.GROUP, mark.group)
            for topic in answer.topics:
                for partition in topic.partitions:
                    self._must("TxnOffsetCommit", partition.error_code, mark.group)

        self._patiently(add)
        self._patiently(write)

    def marks(self, wanted: Mapping[str, str | None], *, stable: bool = True) -> dict[str, list[OffsetMark]]:
        """The committed marks of groups, by name; `wanted` says in which topic a group's mark is, where that is known.

        With `stable`, waits while a transaction is open or being ended on a group whose topic is given: a commit may
        be over at its own coordinator and not yet seen at the group's. Without a topic the broker says nothing of
        partitions that have only pending offsets.
        """

        async def ask() -> dict[str, list[OffsetMark]]:
            found: dict[str, list[OffsetMark]] = {}
            for node, names in await self._by_coordinator(CoordinatorType.GROUP, wanted):
                groups = [_marks_wanted(name, wanted[name]) for name in names]
                request = OffsetFetchRequest(groups=groups, require_stable=stable, min_version=8, max_version=8)
                for group in (await self._ask(request, node)).groups:
                    self._must("OffsetFetch", group.error_code, group.group_id)
                    found[group.group_id] = self._marks_in(group)
            return found

        return self._patiently(ask) if wanted else {}

    def groups(self) -> list[str]:
        """The names of all consumer groups, on all brokers."""

        async def ask() -> list[str]:
            found: list[str] = []
            for node in await self._coordinators_of(OFFSETS_TOPIC):
                answer = await self._ask(ListGroupsRequest(max_version=4), node)
                self._must("ListGroups", answer.error_code)
                found += [group.group_id for group in answer.groups]
            return found

        return self._patiently(ask)

    def delete_groups(self, names: Sequence[str]) -> None:
        """Remove consumer groups with all their marks; one that is not there is no error."""

        async def ask() -> None:
            for node, groups in await self._by_coordinator(CoordinatorType.GROUP, names):
                answer = await self._ask(DeleteGroupsRequest(groups_names=groups), node)
                for each in answer.results:
                    if each.error_code != Reply.GROUP_ID_NOT_FOUND:
                        self._must("DeleteGroups", each.error_code, each.group_id)

        self._patiently(ask)

    def _marks_in(self, group: Any) -> list[OffsetMark]:
        found: list[OffsetMark] = []
        for topic in group.topics:
            for each in topic.partitions:
                self._must("OffsetFetch", each.error_code, group.group_id)
                if each.committed_offset >= 0:
                    metadata = (each.metadata or "").rstrip("\0")
                    found.append(OffsetMark(group.group_id, topic.name, each.committed_offset, metadata))
        return found

    # --- any broker ----------------------------------------------------------------------------------------

    def ask(self, request: Any) -> Any:
        """What any broker answers, whatever it is; asked again while none does. For questions that change nothing."""

        async def once() -> Any:
            return await self._ask(request, None)

        return self._patiently(once)

    # --- coordinators --------------------------------------------------------------------------------------

    async def _coordinators_of(self, topic: str) -> list[int]:
        """The brokers that lead a partition of an internal topic: each is a coordinator, and none may be left out.

        Where the topic is not there, or this user may not see it, all brokers that the cluster names now.
        """
        asked = MetadataRequest.MetadataRequestTopic(name=topic)
        answer = await self._ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False, max_version=8), None)
        leaders = {partition.leader_id for each in answer.topics for partition in each.partitions}
        if -1 in leaders:
            raise _Passing("Metadata", Reply.COORDINATOR_NOT_AVAILABLE, f"a partition of {topic} has no leader")
        return sorted(leaders or {broker.node_id for broker in answer.brokers})

    async def _by_coordinator(self, kind: CoordinatorType, keys: Iterable[str]) -> list[tuple[int, list[str]]]:
        """The keys by their coordinators, as many together as one request takes."""
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
            raise _Passing(request, code, detail)
        if code != Reply.NONE:
            raise KafkaRefused(request, code, detail)

    def _patiently(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Ask until there is an answer that trying again does not change, or patience is at its end."""
        end, tries = time.monotonic() + self._patience, 0
        while True:
            try:
                return self._run(ask)
            except _Passing as error:
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


class _Passing(Exception):
    def __init__(self, request: str, code: int, detail: str) -> None:
        self.request, self.code, self.detail = request, code, detail
        super().__init__(request)


# Every reconnection is an error in this client's own log; what matters here is what a request comes to. And its log of
# requests has the password of a login in it: whatever level the program sets, these say no more than warnings.
logging.getLogger("kafka").addHandler(logging.NullHandler())
for _name in ("kafka", "kafka.protocol.parser", "kafka.net.connection"):
    logging.getLogger(_name).setLevel(logging.WARNING)

_NOT_SENT = (kafka_errors.KafkaError, KafkaRefused, _Passing)
_LOCKED_OUT = frozenset({"AuthenticationError", "SaslAuthenticationFailedError", "AuthorizationError"})
_NOT_KNOWN_YET = frozenset({"UnknownBrokerIdError"})
"""Errors that the client calls final, and that pass when it has asked for the cluster's members again."""
OFFSETS_TOPIC = "__consumer_offsets"
_TRANSACTIONS_TOPIC = "__transaction_state"
_ENDING = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


def _described(each: Any) -> TransactionDescription:
    state = each.transaction_state
    if state != CoordinatorState.OPEN.value:
        state = CoordinatorState.ENDING.value if state in _ENDING else CoordinatorState.CLOSED.value
    return TransactionDescription(
        producer=Producer(each.transactional_id, each.producer_id, each.producer_epoch),
        state=CoordinatorState(state),
        partitions=frozenset((topic.topic, number) for topic in each.topics for number in topic.partitions),
        begun_ms=each.transaction_start_time_ms if each.transaction_start_time_ms > 0 else None,
    )


def _steps(names: Sequence[str]) -> range:
    return range(0, len(names), _IDS_AT_ONCE)


def _marks_wanted(group: str, topic: str | None) -> Any:
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    if topic is None:
        return kind(group_id=group, topics=None)
    topics = [kind.OffsetFetchRequestTopics(name=topic, partition_indexes=[MARK_PARTITION])]
    return kind(group_id=group, topics=topics)


def _mark_request(producer: Producer, mark: OffsetMark) -> TxnOffsetCommitRequest:
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    partition = topic.TxnOffsetCommitRequestPartition(
        partition_index=MARK_PARTITION,
        committed_offset=mark.offset,
        committed_leader_epoch=-1,
        committed_metadata=mark.metadata,
    )
    return TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=mark.group,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=[topic(name=mark.topic, partitions=[partition])],
        max_version=_BEFORE_IMPLICIT_ADD[TxnOffsetCommitRequest],
    )
