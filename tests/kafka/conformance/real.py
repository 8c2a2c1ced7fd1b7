"""A real broker of one node, asked by the product's own calls and by others that are meant to do harm."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka.protocol.admin.groups import DeleteGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from tidegate.kafka.clients import Clients
from tidegate.kafka.replies import PASSING, CoordinatorType, KafkaRefused, Reply
from tidegate.kafka.transactions import CoordinatorState, OffsetMark, Producer, Unsettled
from tidegate.kafka.wire import Wire, _mark_request, _marks_wanted
from tidegate.sinks.kafka.producers import Opened, ProducerSettings
from tidegate.sinks.kafka.wires import _WIRES
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

PARTITIONS = 3
NOBODY = Producer("", -1, -1)
"""Of an open transaction whose identity no test has been given."""

_NODE = 1
_SECONDS = 30.0
_OF_A_LEADER = frozenset({6, 19})
"""NOT_LEADER_OR_FOLLOWER, of a new topic; NOT_ENOUGH_REPLICAS, of a partition that could not be verified yet."""


class WriteTxnMarkersRequest(ApiMessage):
    """What `kafka-transactions.sh abort` sends: past the coordinator, straight to the leaders of partitions."""


class WriteTxnMarkersResponse(ApiMessage):
    pass


class Hands(Wire):
    """The product's requests, and those it never sends. These raise KafkaRefused where they are refused."""

    def add_partition(self, producer: Producer, topic: str, partition: int) -> None:
        kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[kind(name=topic, partitions=[partition])],
            max_version=3,
        )

        async def ask() -> None:
            answer = await self._ask(request, _NODE)
            for found in answer.results_by_topic_v3_and_below:
                for each in found.results_by_partition:
                    self._must("AddPartitionsToTxn", each.partition_error_code)

        self._patiently(ask)

    def produce(self, producer: Producer, topic: str, partition: int, sequence: int, value: bytes) -> None:
        """One record, into a partition that must be part of the transaction already."""
        kind = ProduceRequest.TopicProduceData
        batch = DefaultRecordBatchBuilder(
            2, 0, True, producer.producer_id, producer.producer_epoch, sequence, batch_size=1_000_000
        )
        batch.append(0, None, None, value, [])
        records = bytes(batch.build())
        request = ProduceRequest(
            transactional_id=producer.transactional_id,
            acks=-1,
            timeout_ms=int(_SECONDS * 1000),
            topic_data=[kind(name=topic, partition_data=[kind.PartitionProduceData(index=partition, records=records)])],
            max_version=11,
        )

        async def ask() -> None:
            answer = await self._ask(request, _NODE)
            for found in answer.responses:
                for each in found.partition_responses:
                    self._must("Produce", _waits_for_leader(each.error_code))

        self._patiently(ask)

    def send_mark_late(self, producer: Producer, mark: OffsetMark) -> None:
        """The second half of sending evidence alone: a request that was on its way for too long."""

        async def ask() -> None:
            answer = await self._ask(_mark_request(producer, mark), _NODE)
            for topic in answer.topics:
                for each in topic.partitions:
                    self._must("TxnOffsetCommit", each.error_code)

        self._patiently(ask)

    def mark_pending(self, group: str, topic: str) -> bool:
        """Whether the group's evidence is undecided now: asked once, not waited for."""
        request = OffsetFetchRequest(
            groups=[_marks_wanted(group, topic)], require_stable=True, min_version=8, max_version=8
        )

        async def ask() -> bool:
            (found,) = (await self._ask(request, await self._coordinator(CoordinatorType.GROUP, group))).groups
            codes = {each.error_code for one in found.topics for each in one.partitions}
            return Reply.UNSTABLE_OFFSET_COMMIT in codes

        return self._run(ask)

    def abort(self, producer: Producer) -> int:
        """EndTxn(abort), which fences nobody: what the product never sends."""
        request = EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=False,
            max_version=4,
        )

        async def ask() -> int:
            return (await self._ask(request, _NODE)).error_code

        return self._run(ask)

    def mark_partition_aborted(self, producer: Producer, topic: str, partition: int) -> int:
        """`kafka-transactions.sh abort`: its coordinator is told nothing."""
        marker: Any = vars(WriteTxnMarkersRequest)["WritableTxnMarker"]
        request = WriteTxnMarkersRequest(
            markers=[
                marker(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    transaction_result=False,
                    topics=[marker.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                    coordinator_epoch=0,
                )
            ],
            max_version=1,
        )

        async def ask() -> int:
            (found,) = (await self._ask(request, _NODE)).markers
            return found.topics[0].partitions[0].error_code

        return self._run(ask)

    def delete_groups(self, names: Iterable[str]) -> None:
        async def ask() -> None:
            await self._ask(DeleteGroupsRequest(groups_names=list(names), max_version=2), _NODE)

        self._run(ask)

    def ends(self, topic: str, isolation: int) -> dict[int, int]:
        """Where each partition ends: its last stable offset, or with READ_UNCOMMITTED its high watermark."""
        kind = ListOffsetsRequest.ListOffsetsTopic
        partitions = [kind.ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(PARTITIONS)]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[kind(name=topic, partitions=partitions)],
            max_version=6,
        )

        async def ask() -> dict[int, int]:
            (found,) = (await self._ask(request, _NODE)).topics
            for each in found.partitions:
                self._must("ListOffsets", _waits_for_leader(each.error_code), topic)
            return {each.partition_index: each.offset for each in found.partitions}

        return self._patiently(ask)


def _waits_for_leader(code: int) -> int:
    """The product never talks to leaders by this protocol, so its list of passing answers lacks theirs."""
    return Reply.COORDINATOR_NOT_AVAILABLE if code in _OF_A_LEADER else code


class RealBroker:
    """The operations of the comparison on a broker that runs. A topic of its own; ids are the caller's."""

    def __init__(self, broker: Broker, version: str) -> None:
        self.loses_pending_evidence = version.startswith("3.")
        self.clients = Clients(broker.servers)
        self.hands = Hands(self.clients)
        self.topic = make_topic(broker.servers, PARTITIONS)
        self.begins = dict.fromkeys(range(PARTITIONS), 0)
        self._folder = broker.folder
        self._opened: dict[Producer, Opened] = {}
        """Clients whose transaction nobody else has ended: they go on as the product's do."""
        self._begun = set[Producer]()
        self._sequences: defaultdict[tuple[Producer, int], int] = defaultdict(int)
        self._reader = Consumer(
            {
                "bootstrap.servers": broker.servers,
                "group.id": f"reader-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,
            }
        )

    def close(self) -> None:
        """Leaves nothing in this process that would look for the broker when it has stopped."""
        self.forget_clients()
        self._reader.close()
        self.hands.close()
        for key in [key for key in _WIRES if self.clients.servers in key]:
            _WIRES.pop(key).close()

    def forget_clients(self) -> None:
        self._opened.clear()
        self._begun.clear()

    # --- what a worker does --------------------------------------------------------------------------------

    def init_producer(self, name: str, *, by_client: bool, timeout_ms: int) -> Producer:
        if not by_client:
            return self.hands.fence(name, timeout_ms)
        opened = ProducerSettings(self.clients, "", timeout_ms, self._folder).open(name)
        self._opened[opened.identity] = opened
        return opened.identity

    def write(self, producer: Producer, partition: int, value: bytes, *, adds: bool) -> bool:
        """Whether it was taken. By the client that was opened for it, where that client is of use; without `adds`
        the partition is not added first, as of a request that was on its way for too long."""
        opened = self._opened.get(producer)
        if opened is not None and adds:
            taken = self._write_by_client(opened, partition, value)
        else:
            taken = self._write_by_hand(producer, partition, value, adds=adds)
        self._sequences[producer, partition] += taken
        return taken

    def _write_by_client(self, opened: Opened, partition: int, value: bytes) -> bool:
        told: list[object] = []
        try:
            if opened.identity not in self._begun:
                opened.client.begin_transaction()
                self._begun.add(opened.identity)
            opened.client.produce(
                self.topic, value, partition=partition, on_delivery=lambda error, _: told.append(error)
            )
            opened.client.flush(_SECONDS)
        except (KafkaException, SystemError):
            return False  # fenced: what comes out of it may be either
        return told == [None]

    def _write_by_hand(self, producer: Producer, partition: int, value: bytes, *, adds: bool) -> bool:
        self._opened.pop(producer, None)
        try:
            if adds:
                self.hands.add_partition(producer, self.topic, partition)
            self.hands.produce(producer, self.topic, partition, self._sequences[producer, partition], value)
        except KafkaRefused:
            return False
        return True

    def prove(self, producer: Producer, number: int, *, adds: bool) -> bool:
        """Whether the evidence was taken; without `adds` the group is not added first."""
        mark = OffsetMark(producer.transactional_id, self.topic, number, "")
        try:
            (self.hands.send_mark if adds else self.hands.send_mark_late)(producer, mark)
        except KafkaRefused:
            return False
        return True

    # --- how transactions end ------------------------------------------------------------------------------

    def commit(self, producer: Producer) -> Reply:
        """As often as the product would ask; by then the markers are where readers are."""
        answer = self._until_settled(producer, lambda: self.hands.commit([producer])[0])
        if answer == Reply.NONE:
            self._opened.pop(producer, None)
        return answer

    def abort_by_hand(self, producer: Producer) -> Reply:
        answer = self._until_settled(producer, lambda: self.hands.abort(producer))
        if answer == Reply.NONE:
            self._opened.pop(producer, None)
        return answer

    def await_timeout(self, name: str) -> None:
        """Until the coordinator has aborted what is open under this id."""
        self._until(lambda: self._state(name) is CoordinatorState.CLOSED, f"{name} does not time out")

    def await_expiry(self, names: Iterable[str]) -> None:
        self._until(lambda: not self.hands.describe(names), "the ids do not expire")

    def _until_settled(self, producer: Producer, ask: Any) -> Reply:
        code = Reply(ask())
        while code in PASSING:
            time.sleep(0.005)
            code = Reply(ask())
        self.hands.describe([producer.transactional_id], Unsettled.AWAIT)
        return code

    def _until(self, is_so: Any, what: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            time.sleep(0.02)

    def _state(self, name: str) -> CoordinatorState:
        return self.hands.describe([name])[name].state

    # --- how things stand ----------------------------------------------------------------------------------

    def open_ids(self, names: Iterable[str]) -> set[str]:
        return {name for name, _ in self.hands.open_transactions()} & set(names)

    def open_under(self, name: str) -> tuple[Producer, set[int]] | None:
        """The identity of the open transaction of an id, and the partitions that it holds; None where none is open."""
        found = self.hands.describe([name]).get(name)
        if found is None or found.state is not CoordinatorState.OPEN:
            return None
        return found.producer, {number for topic, number in found.partitions if topic == self.topic}

    def evidence(self, name: str, *, stable: bool) -> int | None:
        """The number of the mark that stands; `stable` waits while a transaction is open or being ended on it."""
        unsettled = Unsettled.AWAIT if stable else Unsettled.SHOW
        marks = self.hands.marks({name: self.topic}, unsettled)[name]
        return marks[0].offset if marks else None

    def blocked(self) -> set[int]:
        """The partitions whose read_committed readers wait."""
        stable = self.hands.ends(self.topic, IsolationLevel.READ_COMMITTED)
        ends = self.hands.ends(self.topic, IsolationLevel.READ_UNCOMMITTED)
        return {at for at, end in ends.items() if stable[at] < end}

    def visible(self) -> dict[int, list[int]]:
        """What a read_committed reader sees by now in each partition, from where the comparison began."""
        ends = self.hands.ends(self.topic, IsolationLevel.READ_COMMITTED)
        waiting = {at: end for at, end in ends.items() if end > self.begins[at]}
        seen: dict[int, list[int]] = {at: [] for at in ends}
        self._reader.assign([TopicPartition(self.topic, at, self.begins[at]) for at in waiting])
        deadline = time.monotonic() + _SECONDS
        while waiting:
            message = self._reader.poll(0.05)
            if message is not None:
                at, error = message.partition() or 0, message.error()
                if error is None:
                    seen[at].append(int(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= waiting.get(at, 0):
                    # By this alone: no position tells of aborted rows that are the last below the last stable offset.
                    waiting.pop(at, None)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.topic}: not read to {waiting}")
        return seen

    def begin_here(self) -> None:
        """What was written until now is no part of the next comparison."""
        self.begins = self.hands.ends(self.topic, IsolationLevel.READ_UNCOMMITTED)
