"""The Kafka sink: an open transaction for each task. The driver commits it after its epoch is decided."""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
import pyarrow as pa
from confluent_kafka import KafkaException
from msgspec.structs import replace

from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding
from tidegate.core.levels import Level
from tidegate.core.records import (
    NOTHING_FINISHED,
    Answer,
    Attempt,
    Committable,
    Evidence,
    Outcome,
    Position,
    SinkIdentity,
)
from tidegate.kafka.clients import Clients, as_text
from tidegate.kafka.cluster import cluster_of
from tidegate.kafka.replies import PASSING, KafkaRefused, Reply
from tidegate.kafka.transactions import CoordinatorState, TransactionDescription
from tidegate.kafka.wire import Wire
from tidegate.sinks.base import JournalKeeper, OpenTransaction, SinkPlan, Transaction, TwoPhaseSink, answer_all
from tidegate.sinks.kafka.checks import layout_of, violations_of
from tidegate.sinks.kafka.described import KafkaTarget, open_of, options_of, probed, target_of
from tidegate.sinks.kafka.evidence import evidence_in, marks_of, position_in
from tidegate.sinks.kafka.halftime import HalfTime
from tidegate.sinks.kafka.looked_at import Looked, looked_at
from tidegate.sinks.kafka.names import TransactionalId
from tidegate.sinks.kafka.producers import ProducerSettings, ProducerTurn, producers_of, wire_of
from tidegate.sinks.kafka.slots import default_root
from tidegate.sinks.kafka.topic_limits import limits_of
from tidegate.sinks.kafka.transaction import Handle, KafkaTransaction, TransactionBroken
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused

_LOG = logging.getLogger("tidegate")
_LOOK_FOR_ORPHANS_SECONDS = 2.0


class KafkaSink(TwoPhaseSink):
    """Rows into Kafka topics, exactly once for readers with `isolation.level=read_committed`.

    `format="json"`: the message value is a JSON object of the columns `value` (default: all columns except topic,
    partition and headers). `format="raw"`: the value is one column without conversion, by default the column `value`; a
    null is a tombstone. `topic`: the topic of all rows; without it the column "topic" names it. `key`, `partition`,
    `headers`: names of columns. In format raw, columns with these names are used by default, as in Spark's own Kafka
    sink.

    `options`: librdkafka's settings; a value may be `env:NAME` or `file:PATH`. `transaction_timeout`: seconds until the
    broker aborts an open transaction (default: the broker's maximum); such rows are written again from the journal.
    `transactional_id_prefix`: the start of every transactional id. At most one decided epoch waits. `invalid_text`: a
    row with a text that is not UTF-8 is refused ("refuse"), or each such part becomes U+FFFD ("replace").

    Source of the rules: KIP-98, KIP-447 (offsets in a transaction), KIP-664 (describing transactions).
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.LEDGER
    prepared_rows_have_their_place: ClassVar[bool] = True
    evidence_expires: ClassVar[bool] = True
    levels: ClassVar[frozenset[Level]] = frozenset(Level)

    def __init__(
        self,
        uid: str,
        servers: str,
        *,
        topic: str | None = None,
        key: str | None = None,
        value: Sequence[str] | str | None = None,
        headers: str | None = None,
        partition: str | None = None,
        format: str = "json",
        invalid_text: str = "refuse",
        transactional_id_prefix: str = "",
        transaction_timeout: float | None = None,
        options: Mapping[str, str | int | float | bool] | None = None,
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.topic = topic
        self.key = key
        self.value = (value,) if isinstance(value, str) else tuple(value or ())
        self.headers = headers
        self.partition = partition
        self.format = format
        self.invalid_text = option_of(InvalidText, "invalid_text", invalid_text, uid)
        self.prefix = transactional_id_prefix
        self.transaction_timeout = transaction_timeout
        self.clients = Clients(servers, {name: as_text(given) for name, given in (options or {}).items()})
        self._finished = NOTHING_FINISHED
        self._timeout_ms: int | None = None
        self._identity: SinkIdentity | None = None
        self._open_before = frozenset[str]()
        self._look_at = 0.0
        self._half_time = HalfTime()
        self._looked: Looked | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_looked": None}

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "kafka"

    def describe(self) -> Mapping[str, object]:
        return msgspec.to_builtins(target_of(self))

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        target = msgspec.convert(described, KafkaTarget)
        return cls(
            uid,
            target.servers,
            topic=target.topic,
            key=target.key,
            value=target.value,
            headers=target.headers,
            partition=target.partition,
            format=target.format,
            invalid_text=target.invalid_text,
            transactional_id_prefix=target.prefix,
            transaction_timeout=target.transaction_timeout,
            options=options_of(target, options),
            delivery=delivery,
        )

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, KafkaTarget))

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return probed(self, what, plan)

    def open_transactions(self, identity: SinkIdentity) -> Sequence[OpenTransaction]:
        """Includes transactions of an older life of the job in the sink's topic, because they keep readers waiting."""
        return open_of(self._described(identity, of_any_job=True), identity, self.topic)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        self._identity = plan.identity
        self._timeout_ms = cluster_of(self).timeout_ms(self.transaction_timeout)

    def position(self, identity: SinkIdentity) -> Position | None:
        with self._reached() as wire:
            return position_in(wire, identity, prefix=self.prefix, topic=self.topic)

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        self._abort_what_stays_open()
        if self._identity is not None:
            warn = partial(self._warn, self._identity, finished_through)
            self._half_time.begin(self._settings().timeout_ms / 2000, partial(copy_context().run, warn))
        seen_by_tasks = copy.copy(self)
        seen_by_tasks._finished = finished_through
        return seen_by_tasks

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return self._look(batch).refused

    def _look(self, batch: pa.RecordBatch) -> Looked:
        """Checks a batch once, for both `refused` and `write`."""
        if self._looked is None or self._looked.batch is not batch:
            self._looked = looked_at(batch, layout_of(self, batch.schema), limits_of(self.clients))
        return self._looked

    def begin(self, attempt: Attempt) -> Transaction:
        settings = self._settings()
        lease = producers_of(settings, attempt.sink).take(settings, attempt, self._finished)
        return KafkaTransaction(settings, self._look, attempt, lease)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        try:
            replies = wire_of(self.clients).commit([Handle.of(each).producer for each in committables])
        except KafkaRefused as error:
            return answer_all(committables, Outcome.RETRY, str(error))
        answers = [_answer(reply) for reply in replies]
        if all(answer.outcome is Outcome.COMMITTED for answer in answers):
            self._half_time.end()
        return answers

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.commit(committables)

    def evidence(self, committable: Committable) -> Evidence:
        """ABSENT only while the evidence cannot have expired since the transaction was prepared."""
        handle = Handle.of(committable)
        name = handle.producer.transactional_id
        with self._reached() as wire:
            described = wire.describe([name]).get(name)
            if described is not None and described.is_open(handle.producer):
                return Evidence.ABSENT
            marks = marks_of(wire, {name: handle.topic}, stable=True)
        found = [text for mark in marks if (text := evidence_in(mark)) is not None]
        if any(text.digest == committable.digest for text in found):
            return Evidence.PRESENT
        attempt = committable.attempt
        if any((text.generation, text.epoch) == (attempt.sink.generation, attempt.epoch) for text in found):
            return Evidence.OTHER
        age_ms = time.time() * 1000 - handle.prepared_ms
        return Evidence.ABSENT if age_ms < cluster_of(self).evidence_kept_ms else Evidence.UNKNOWN

    def fence(self, committable: Committable) -> None:
        with self._reached() as wire:
            wire.fence(Handle.of(committable).producer.transactional_id, self._settings().timeout_ms)

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Under its own name: opening the producer fences every other process that could write it again."""
        handle, settings = Handle.of(committable), self._settings()
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
            for batch in batches:
                transaction.write(batch)
            again = transaction.pre_commit()
            if again is None or again.digest != committable.digest:
                transaction.abort()
                return Answer(outcome=Outcome.UNKNOWN, detail="the journal gave another number of rows")
            reply = wire_of(self.clients).commit([Handle.of(again).producer])[0]
        except (KafkaException, KafkaRefused, TransactionBroken) as error:
            return Answer(outcome=Outcome.RETRY, detail=str(error))
        except TidegateError as error:
            if error.catalogue_entry is not Code.SINK_UNUSABLE:
                raise
            return Answer(outcome=Outcome.RETRY, detail=error.found)
        return _answer(reply)

    def _look_at_decided(self, batch: pa.RecordBatch) -> Looked:
        """These rows were accepted before. A changed text policy of the program must not stop a decided epoch."""
        layout = dataclasses.replace(layout_of(self, batch.schema), invalid_text=InvalidText.REPLACE)
        return looked_at(batch, layout, None)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return [each.producer.name for each in self._described(identity)]

    def _described(self, identity: SinkIdentity, *, of_any_job: bool = False) -> Sequence[TransactionDescription]:
        """The transactions of `pending`, as their coordinators describe them. With `of_any_job` also open transactions
        of other job ids in a query and a sink of these uids: an older life of this job, or another job.
        """
        with self._reached() as wire:
            mine = [
                name
                for name, _ in wire.open_transactions()
                if (found := TransactionalId.parse(name)) is not None
                and found.belongs_to(self.prefix, replace(identity, job_id=found.job_id) if of_any_job else identity)
            ]
            described = wire.describe(mine).values()
        return [each for each in described if each.state is CoordinatorState.OPEN]

    def abort(self, transactions: Sequence[str]) -> None:
        """The transactions that are unchanged: an id may have begun another transaction since it was listed."""
        ids = [name.rsplit("@", 1)[0] for name in transactions]
        with self._reached() as wire:
            for found in wire.describe(ids).values():
                if found.state is CoordinatorState.OPEN and found.producer.name in transactions:
                    wire.fence(found.producer.transactional_id, self._settings().timeout_ms)

    def forget(self, identity: SinkIdentity) -> None:
        """Delete the groups with the marks of this job's transactions. They are all the evidence that exists."""
        with self._reached() as wire:
            mine = [
                name
                for name in wire.groups()
                if (found := TransactionalId.parse(name)) is not None and found.belongs_to(self.prefix, identity)
            ]
            wire.delete_groups(mine)

    def _abort_what_stays_open(self) -> None:
        """At the start of an epoch no transaction of this sink may be open: every older epoch is finished.

        A transaction that was open at an earlier start, too, was left by a losing attempt or by a dead executor.
        Readers wait behind it. So this check runs every few seconds.
        """
        if self._identity is None or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_FOR_ORPHANS_SECONDS
        open_now = frozenset(self.pending(self._identity))
        if stayed := sorted(open_now & self._open_before):
            self.abort(stayed)
        self._open_before = open_now

    def _warn(self, identity: SinkIdentity, finished_through: int) -> None:
        """Half of the timeout has passed since an epoch began, and its transactions are not yet reported as ended."""
        try:
            still_open = len(self.pending(identity))
        except TidegateError as error:
            found = f"the open transactions cannot be listed ({error.found})"
        else:
            if still_open == 0:
                return
            found = f"{still_open} transactions are still open"
        timeout = self._settings().timeout_ms / 1000
        _LOG.warning(
            "sink %s, the epoch after %d: %s %g s after it began, half of transaction_timeout (%g s). Readers wait"
            " behind them; at the timeout the brokers abort them, and their rows are written once more. Let epochs take"
            " less (limits of the source), or give a longer transaction_timeout=",
            self.uid,
            finished_through,
            found,
            timeout / 2,
            timeout,
            extra={"event": "TransactionsOpenForLong", "epoch": finished_through + 1},
        )

    # --- settings ------------------------------------------------------------------------------------------

    @contextmanager
    def _reached(self) -> Generator[Wire]:
        """The connections of this process. If the cluster stays unreachable or refuses the connection, the run ends."""
        try:
            yield wire_of(self.clients)
        except KafkaRefused as error:
            raise TidegateError(
                Code.SINK_UNUSABLE,
                expected="a Kafka cluster that answers, and lets this user look at its transactions and groups",
                found=str(error),
                where=f"sink {self.uid!r}: {self.clients.servers}",
                next_step="repair the cluster or the user's rights, then start again: nothing is lost",
            ) from None

    def _settings(self) -> ProducerSettings:
        if self._timeout_ms is None:
            self._timeout_ms = cluster_of(self).timeout_ms(self.transaction_timeout)
        return ProducerSettings(self.clients, self.prefix, self._timeout_ms, _place())


def _answer(reply: int) -> Answer:
    """NONE means committed. FENCED, a wrong state and a forgotten id are ambiguous: the evidence decides."""
    if reply == Reply.NONE:
        return Answer(outcome=Outcome.COMMITTED)
    name = Reply(reply).name if reply in set(Reply) else f"error {reply}"
    waits = reply in PASSING or reply == Reply.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Answer(outcome=Outcome.RETRY if waits else Outcome.LOST, detail=f"EndTxn: {name}")


def _place() -> Path:
    given = os.environ.get("TIDEGATE_PLACE")
    return Path(given) if given else default_root()


def _nothing() -> None:
    """The driver's producer writes one transaction again and is then closed."""
