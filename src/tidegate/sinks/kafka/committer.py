"""The commit phase of a Kafka sink, on a driver: it ends the prepared transactions of an epoch, and writes lost ones
again.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import KafkaException

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Answer, Committable, Evidence, Outcome
from tidegate.kafka.cluster import cluster_of
from tidegate.kafka.replies import PASSING, KafkaRefused, Reply
from tidegate.kafka.transactions import Unsettled
from tidegate.sinks.base import answer_all
from tidegate.sinks.kafka.declared import DeclaredKafkaSink, layout_of
from tidegate.sinks.kafka.evidence import evidence_in, marks_of
from tidegate.sinks.kafka.looked_at import Looked, looked_at
from tidegate.sinks.kafka.producers import ProducerSettings, ProducerTurn
from tidegate.sinks.kafka.transaction import Handle, KafkaTransaction, TransactionBroken
from tidegate.sinks.kafka.wires import reached, wire_of
from tidegate.sinks.row_values import InvalidText


@dataclass(frozen=True, slots=True)
class KafkaCommitter:
    """Ends prepared transactions of a sink, and finds out which of them are committed.

    `settings` asks the cluster for the timeout of transactions if the sink does not know it yet.
    """

    sink: DeclaredKafkaSink
    settings: Callable[[], ProducerSettings]

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        try:
            replies = wire_of(self.sink.clients).commit([Handle.of(each).producer for each in committables])
        except KafkaRefused as error:
            return answer_all(committables, Outcome.RETRY, str(error))
        return [_answer(reply) for reply in replies]

    def evidence(self, committable: Committable) -> Evidence:
        """ABSENT only while the evidence cannot have expired since the transaction was prepared."""
        handle = Handle.of(committable)
        name = handle.producer.transactional_id
        with reached(self.sink) as wire:
            described = wire.describe([name]).get(name)
            if described is not None and described.is_open(handle.producer):
                return Evidence.ABSENT
            marks = marks_of(wire, {name: handle.topic}, Unsettled.AWAIT)
        found = [text for mark in marks if (text := evidence_in(mark)) is not None]
        if any(text.digest == committable.digest for text in found):
            return Evidence.PRESENT
        attempt = committable.attempt
        if any((text.generation, text.epoch) == (attempt.sink.generation, attempt.epoch) for text in found):
            return Evidence.OTHER
        age_ms = time.time() * 1000 - handle.prepared_ms
        return Evidence.ABSENT if age_ms < cluster_of(self.sink).evidence_kept_ms else Evidence.UNKNOWN

    def fence(self, committable: Committable) -> None:
        with reached(self.sink) as wire:
            wire.fence(Handle.of(committable).producer.transactional_id, self.settings().timeout_ms)

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Under its own name: opening the producer fences every other process that could write it again."""
        handle, settings = Handle.of(committable), self.settings()
        try:
            lease = ProducerTurn(settings.open(handle.producer.transactional_id), prepared=_nothing, give_back=_nothing)
            evidence = self.evidence(committable)
            if evidence is Evidence.PRESENT:
                return Answer(outcome=Outcome.ALREADY, detail="the evidence appeared while the transaction was fenced")
            if evidence is not Evidence.ABSENT:
                return Answer(outcome=Outcome.UNKNOWN, detail=f"the evidence is {evidence.value}")
            transaction = KafkaTransaction(
                settings, self._look_at_decided, committable.attempt, lease, mark_topic=handle.topic
            )
            try:
                for batch in batches:
                    transaction.write(batch)
                again = transaction.pre_commit()
            finally:
                transaction.give_up()  # the client is closed already if the rows are prepared
            if again is None or again.digest != committable.digest:
                transaction.abort()
                return Answer(outcome=Outcome.UNKNOWN, detail="the journal gave another number of rows")
            reply = wire_of(self.sink.clients).commit([Handle.of(again).producer])[0]
        except (KafkaException, KafkaRefused, TransactionBroken) as error:
            return Answer(outcome=Outcome.RETRY, detail=str(error))
        except TidegateError as error:
            if error.catalogue_entry is not Code.SINK_UNUSABLE:
                raise
            return Answer(outcome=Outcome.RETRY, detail=error.found)
        return _answer(reply)

    def _look_at_decided(self, batch: pa.RecordBatch) -> Looked:
        """These rows were accepted before. A changed text policy of the program must not stop a decided epoch."""
        layout = dataclasses.replace(layout_of(self.sink, batch.schema), invalid_text=InvalidText.REPLACE)
        return looked_at(batch, layout, None)


def _answer(reply: int) -> Answer:
    """NONE means committed. FENCED, a wrong state and a forgotten id are ambiguous: the evidence decides."""
    if reply == Reply.NONE:
        return Answer(outcome=Outcome.COMMITTED)
    name = Reply(reply).name if reply in set(Reply) else f"error {reply}"
    waits = reply in PASSING or reply == Reply.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Answer(outcome=Outcome.RETRY if waits else Outcome.LOST, detail=f"EndTxn: {name}")


def _nothing() -> None:
    """The driver's producer writes one transaction again and is then closed."""
