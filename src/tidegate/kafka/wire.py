"""Requests of Kafka's protocol that no client library offers: commit, describe and fence transactions of other
processes.

Requests that only read, and fencing, are retried until a deadline while a coordinator moves or does not answer. EndTxn
is sent once, and its answer is returned unchanged: the sink decides what it means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import kafka.errors as kafka_errors
from kafka.protocol.admin import DeleteGroupsRequest, ListGroupsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from tidegate.kafka.connections import Connections, Passing
from tidegate.kafka.replies import PASSING, CoordinatorType, KafkaRefused, Reply
from tidegate.kafka.transactions import CoordinatorState, OffsetMark, Producer, TransactionDescription, Unsettled

MARK_PARTITION = 0
"""Where a mark stands in its topic: every topic has this partition."""
_END_TXN_AT_MOST = 4
"""Version 5 raises the producer epoch, and on a cluster with transaction.version 0 jams the transaction."""
_BEFORE_IMPLICIT_ADD = {AddOffsetsToTxnRequest: 3, TxnOffsetCommitRequest: 4}


class Wire(Connections):
    """The requests of one process to a cluster. Threads may share it. Methods raise KafkaRefused."""

    # --- transactions --------------------------------------------------------------------------------------

    def fence(self, transactional_id: str, timeout_ms: int) -> Producer:
        """Send InitProducerId: it aborts the open transaction of this id and fences all older producers of it."""

        async def ask() -> Producer:
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, max_version=5
            )
            answer = await self._ask_coordinator(request, CoordinatorType.TRANSACTION, transactional_id)
            self._must("InitProducerId", answer.error_code, transactional_id)
            return Producer(transactional_id, answer.producer_id, answer.producer_epoch)

        return self._patiently(ask)

    def describe(
        self, transactional_ids: Iterable[str], unsettled: Unsettled = Unsettled.SHOW
    ) -> dict[str, TransactionDescription]:
        """The state of each transactional id; ids that their coordinator does not know are left out.

        AWAIT waits until no commit or abort is in progress. It does not wait for an open transaction.
        """

        async def ask() -> dict[str, TransactionDescription]:
            found: dict[str, TransactionDescription] = {}
            for node, names in await self._by_coordinator(CoordinatorType.TRANSACTION, transactional_ids):
                answer = await self._ask(DescribeTransactionsRequest(transactional_ids=names), node)
                for each in answer.transaction_states:
                    if each.error_code != Reply.TRANSACTIONAL_ID_NOT_FOUND:
                        self._must("DescribeTransactions", each.error_code, each.transactional_id)
                        found[each.transactional_id] = _described(each)
            awaited = unsettled is Unsettled.AWAIT
            if awaited and any(each.state is CoordinatorState.ENDING for each in found.values()):
                raise Passing("DescribeTransactions", Reply.CONCURRENT_TRANSACTIONS, "")
            return found

        return self._patiently(ask)

    def open_transactions(self) -> list[tuple[str, int]]:
        """(transactional id, producer id) of every open transaction on all coordinators.

        Raises if a coordinator does not answer.
        """

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
        """Send EndTxn once for each producer, all at the same time.

        Returns the error codes in order; NO_ANSWER for no answer.
        """

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
        """Add `mark` to the producer's open transaction, so that it is committed or aborted with it."""

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

    def marks(
        self, wanted: Mapping[str, str | None], unsettled: Unsettled = Unsettled.AWAIT
    ) -> dict[str, list[OffsetMark]]:
        """The committed marks of consumer groups, by group name. `wanted`: for each group the topic of its mark, or
        None.

        AWAIT waits while a transaction that includes the group is open or being ended: the group's coordinator may see
        a commit later than the transaction's. This needs the group's topic, because without it the broker does not
        report partitions with pending offsets only.
        """

        async def ask() -> dict[str, list[OffsetMark]]:
            found: dict[str, list[OffsetMark]] = {}
            for node, names in await self._by_coordinator(CoordinatorType.GROUP, wanted):
                groups = [_marks_wanted(name, wanted[name]) for name in names]
                stable = unsettled is Unsettled.AWAIT
                request = OffsetFetchRequest(groups=groups, require_stable=stable, min_version=8, max_version=8)
                for group in (await self._ask(request, node)).groups:
                    self._must("OffsetFetch", group.error_code, group.group_id)
                    found[group.group_id] = self._marks_in(group)
            return found

        return self._patiently(ask) if wanted else {}

    def groups(self) -> list[str]:
        """The names of all consumer groups, from all brokers."""

        async def ask() -> list[str]:
            found: list[str] = []
            for node in await self._coordinators_of(OFFSETS_TOPIC):
                answer = await self._ask(ListGroupsRequest(max_version=4), node)
                self._must("ListGroups", answer.error_code)
                found += [group.group_id for group in answer.groups]
            return found

        return self._patiently(ask)

    def delete_groups(self, names: Sequence[str]) -> None:
        """Remove consumer groups with all their marks. Does nothing for a group that does not exist."""

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


_NOT_SENT = (kafka_errors.KafkaError, KafkaRefused, Passing)
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
