"""One Kafka transaction: one process writes and proves it, another process ends it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException

from tidegate.core.errors import Code, Detail, TidegateError
from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.kafka.refusals import shortly
from tidegate.kafka.replies import KafkaRefused, Reply
from tidegate.kafka.transactions import OffsetMark, Producer
from tidegate.kafka.wire import OFFSETS_TOPIC
from tidegate.sinks.base import Transaction
from tidegate.sinks.kafka.looked_at import Looked
from tidegate.sinks.kafka.messages import Message
from tidegate.sinks.kafka.producers import ProducerSettings, ProducerTurn
from tidegate.sinks.kafka.record_size import runs
from tidegate.sinks.kafka.topic_limits import limits_of
from tidegate.sinks.kafka.wires import wire_of
from tidegate.sinks.rows import RowRefused

_HEADERS_BYTES = 1000
_QUEUE_FULL_WAIT_SECONDS = 0.05
_ABORT_SECONDS = 5.0
"""Time limit for the client's abort. What it does not reach within this time, fencing does."""
_ERROR = "_error"
"""The keys under which the client marks a refused message of a batch, with the reason."""


class EvidenceText(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of the offset that proves a commit. Only its digest is compared."""

    job: str
    generation: int
    epoch: int
    digest: str


@dataclass(frozen=True, slots=True)
class Handle:
    """A committable's handle: the identity of its transaction, the topic of its evidence, the time of its
    pre-commit.
    """

    producer: Producer
    topic: str
    prepared_ms: int

    def as_handle(self) -> dict[str, str]:
        return {
            "transactional_id": self.producer.transactional_id,
            "producer_id": str(self.producer.producer_id),
            "producer_epoch": str(self.producer.producer_epoch),
            "topic": self.topic,
            "prepared_ms": str(self.prepared_ms),
        }

    @classmethod
    def of(cls, committable: Committable) -> Handle:
        given = committable.handle
        producer = Producer(given["transactional_id"], int(given["producer_id"]), int(given["producer_epoch"]))
        return cls(producer, given["topic"], int(given["prepared_ms"]))


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that was refused."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None

    @classmethod
    def of(cls, topic: str, message: Message) -> RefusedMessage:
        return cls(topic, message["key"], message["value"], message.get("partition"))

    def details(self) -> dict[str, Detail]:
        known = self.partition is not None and self.partition >= 0
        return {
            "topic": self.topic,
            **({"partition": self.partition or 0} if known else {}),
            "key": shortly(self.key),
            "row": f"{shortly(self.value)}, {len(self.value or b'')} bytes",
        }


class TransactionBroken(Exception):
    """The transaction was fenced, timed out or aborted while it was written: the attempt has failed."""


class KafkaTransaction(Transaction):
    """Writes one attempt's messages into an open transaction, and proves that all of them arrived."""

    def __init__(
        self,
        settings: ProducerSettings,
        look: Callable[[pa.RecordBatch], Looked],
        attempt: Attempt,
        lease: ProducerTurn,
        mark_topic: str | None = None,
    ) -> None:
        """`look` converts rows to messages. `mark_topic`: the topic of the evidence; by default the first topic that is
        written.
        """
        self._settings = settings
        self._look = look
        self._limits = limits_of(settings.clients)
        self._attempt = attempt
        self._lease: ProducerTurn | None = lease
        self._identity = lease.opened.identity
        self._name = self._identity.transactional_id
        self._mark_topic = mark_topic
        self._rows = self._confirmed = 0
        self._partitions: set[tuple[str, int]] = set()
        self._refused: tuple[KafkaError, RefusedMessage] | None = None
        lease.opened.client.begin_transaction()

    def write(self, batch: pa.RecordBatch) -> None:
        looked = self._look(batch)
        if looked.refused:
            raise looked.refused[0]
        for topic, messages in looked.messages.items():
            self._send(topic, messages, self._send_batch if looked.plain else self._send_each)
            self._rows += len(messages)
            self._serve("poll", 0)

    def pre_commit(self) -> Committable | None:
        if self._rows == 0:
            return None
        lease = self._lease
        if lease is None:
            raise TransactionBroken(f"{self._name}: given up before")
        self._flush()
        self._prove()
        lease.prepared()
        self._let_go()
        return self._committable()

    def abort(self) -> None:
        """Give it up, and fence its id. If the cluster is unreachable, recovery or the next user of the id does it."""
        self.give_up()
        try:
            wire_of(self._settings.clients).fence(self._name, self._settings.timeout_ms)
        except KafkaRefused:
            return

    def give_up(self) -> None:
        """Close the client. Every path that ends before `pre_commit` has succeeded must call this.

        The client aborts the transaction first, because this waits for its open requests. Without it librdkafka ends
        the whole process (an assertion in rdkafka_txnmgr.c, seen with 2.16) if the coordinator has not answered yet
        that a partition is part of the transaction.
        """
        if self._lease is not None:
            with suppress(KafkaException, SystemError):  # fenced, timed out, or the cluster does not answer
                self._lease.opened.client.abort_transaction(_ABORT_SECONDS)
            self._let_go()

    # --- writing -------------------------------------------------------------------------------------------

    def _send(self, topic: str, messages: list[Message], send: Callable[[str, list[Message]], None]) -> None:
        """If the client's batches may be larger than the topic accepts, rows go in parts that fit, and each part is
        awaited.
        """
        limits = self._limits.of(topic)
        if not limits.exists:  # the client would search for it for half a minute
            raise _topic_refused(Code.KAFKA_TOPIC_MISSING, topic, "no such topic", _CREATE)
        if limits.most_bytes is None or self._limits.batches_fit(limits):
            send(topic, messages)
            return
        for run in runs(messages, limits.most_bytes):
            send(topic, run)
            self._serve("flush", self._settings.timeout_ms / 1000)

    def _send_batch(self, topic: str, messages: list[Message]) -> None:
        """Takes half the time of single messages. The batch call has no headers and ignores a partition.

        If the client has no room for a message, it takes none of the later ones, so their order stays.
        """
        left: list[Any] = list(messages)
        while left:
            try:
                taken = self._producer().produce_batch(topic, left, on_delivery=self._delivered)
            except KafkaException as error:
                raise self._refusal(error.args[0], RefusedMessage.of(topic, left[0])) from None
            left = [] if taken == len(left) else [message for message in left if _ERROR in message]
            for message in left:
                if (error := message.pop(_ERROR)).code() != KafkaError._QUEUE_FULL:  # pyright: ignore[reportPrivateUsage]
                    raise self._refusal(error, RefusedMessage.of(topic, message))
            if left:
                self._serve("poll", _QUEUE_FULL_WAIT_SECONDS)

    def _send_each(self, topic: str, messages: list[Message]) -> None:
        produce = self._producer().produce
        for message in messages:
            while True:
                try:
                    produce(topic, **message, on_delivery=self._delivered)
                    break
                except BufferError:
                    self._serve("poll", _QUEUE_FULL_WAIT_SECONDS)
                except KafkaException as error:
                    raise self._refusal(error.args[0], RefusedMessage.of(topic, message)) from None

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            refused = RefusedMessage(message.topic(), message.key(), message.value(), message.partition())
            self._refused = self._refused or (error, refused)
            return
        self._confirmed += 1
        self._partitions.add((message.topic(), message.partition()))

    def _serve(self, call: str, seconds: float) -> None:
        """Let the client run its delivery callbacks. Raises the error that a callback reported.

        A fenced client raises during callbacks. The result may be a SystemError, with or without its cause.
        """
        try:
            getattr(self._producer(), call)(seconds)
        except (KafkaException, SystemError) as error:
            raise TransactionBroken(f"{self._name}: {_first_cause(error)}") from None
        if self._refused is not None:
            raise self._refusal(*self._refused)

    def _refusal(self, error: KafkaError, message: RefusedMessage) -> TidegateError | TransactionBroken:
        """The error of the row or its topic if that is the cause; otherwise the error of the whole transaction."""
        known = _REFUSALS.get(error.name())
        if error.name() == "MSG_SIZE_TOO_LARGE" and self._would_fit(message):
            return TransactionBroken(f"{self._name}: topic {message.topic!r} takes less than it did a moment ago")
        if known is None:
            return TransactionBroken(f"{self._name}: {error.name()}: {error.str()}")
        code, remedy = known
        found = f"{error.name()}: {error.str()}"
        if code is Code.RECORD_REFUSED:
            return RowRefused(
                expected="the topic to take every row", found=found, next_step=remedy, details=message.details()
            )
        return _topic_refused(code, message.topic, found, remedy)

    def _would_fit(self, message: RefusedMessage) -> bool:
        """True if the whole batch was too large, not this row: max.message.bytes was lowered since it was read."""
        most = self._limits.changed(message.topic).most_bytes
        size = len(message.key or b"") + len(message.value or b"") + _HEADERS_BYTES
        return most is not None and size <= min(most, self._limits.client_most_bytes)

    # --- the proof -----------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """The end of a flush is no confirmation: refused and fenced messages leave the queue too."""
        self._serve("flush", self._settings.timeout_ms / 1000)
        if self._confirmed != self._rows:
            raise TransactionBroken(f"{self._name}: {self._confirmed} of {self._rows} messages confirmed")

    def _prove(self) -> None:
        """Adds the evidence to the transaction. After that, the transaction must still hold all written messages, under
        the identity that this producer received when it was opened.
        """
        wire = wire_of(self._settings.clients)
        try:
            wire.send_mark(self._identity, self._mark())
            proven = wire.describe([self._name]).get(self._name)
        except KafkaRefused as error:
            if error.code != Reply.TOPIC_AUTHORIZATION_FAILED:
                raise TransactionBroken(f"{self._name}: {error}") from None
            raise _topic_refused(Code.SINK_UNUSABLE, self._evidence_topic(), str(error), _READ) from None
        if proven is None or not proven.is_open(self._identity):
            raise TransactionBroken(f"{self._name}: not open any more")
        if {each for each in proven.partitions if each[0] != OFFSETS_TOPIC} != self._partitions:
            raise TransactionBroken(f"{self._name}: aborted while it was written, and begun again by its last request")

    def _mark(self) -> OffsetMark:
        text = EvidenceText(
            job=self._attempt.sink.job,
            generation=self._attempt.sink.generation,
            epoch=self._attempt.epoch,
            digest=self._digest(),
        )
        # One group for each id: two open transactions on one group would wait for each other.
        return OffsetMark(
            group=self._name,
            topic=self._evidence_topic(),
            offset=self._attempt.epoch,
            metadata=msgspec.json.encode(text).decode(),
        )

    def _committable(self) -> Committable:
        handle = Handle(self._identity, self._evidence_topic(), int(time.time() * 1000))
        return Committable(attempt=self._attempt, rows=self._rows, digest=self._digest(), handle=handle.as_handle())

    def _digest(self) -> str:
        return committable_digest(self._attempt, f"rows:{self._rows}")

    def _evidence_topic(self) -> str:
        return self._mark_topic or min(topic for topic, _ in self._partitions)

    # --- the producer --------------------------------------------------------------------------------------

    def _producer(self) -> Any:
        if self._lease is None:
            raise TransactionBroken(f"{self._name}: given up before")
        return self._lease.opened.client

    def _let_go(self) -> None:
        if self._lease is not None:
            self._lease.give_back()
            self._lease = None


def _first_cause(error: BaseException) -> BaseException:
    """The cause below the SystemErrors of all callbacks that ran after the client had raised."""
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _topic_refused(code: Code, topic: str, found: str, remedy: str) -> TidegateError:
    return TidegateError(
        code,
        expected=f"topic {topic!r} to take rows, and the proof of their commit",
        found=found,
        where=f"topic {topic!r}",
        next_step=remedy,
        details={"topic": topic},
    )


_READ = "give the user READ on the topic (the proof of a commit is an offset of it), then start again"
_CREATE = "create the topic, or name one that exists, then start again"
_REFUSALS = {
    "MSG_SIZE_TOO_LARGE": (
        Code.RECORD_REFUSED,
        "raise max.message.bytes of the topic and message.max.bytes in options=, or leave the row out with where=; then"
        " start again: the epoch's input comes again",
    ),
    "INVALID_RECORD": (
        Code.RECORD_REFUSED,
        "add what the topic requires (compacted: a key), or leave the row out with where=; then start again",
    ),
    "POLICY_VIOLATION": (
        Code.RECORD_REFUSED,
        "change the row as the broker's policy requires, or leave it out with where=",
    ),
    "_UNKNOWN_PARTITION": (Code.RECORD_REFUSED, "give a partition that the topic has, or none"),
    "TOPIC_AUTHORIZATION_FAILED": (Code.SINK_UNUSABLE, "give the user WRITE on the topic, then start again"),
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": (
        Code.SINK_UNUSABLE,
        "give the user WRITE and DESCRIBE on the transactional ids, then start again",
    ),
    "UNKNOWN_TOPIC_OR_PART": (Code.KAFKA_TOPIC_MISSING, _CREATE),
    "_UNKNOWN_TOPIC": (Code.KAFKA_TOPIC_MISSING, _CREATE),
}
"""By the client's error name: the cause (the row, its topic or the user's rights), and the next step."""
