"""The Kafka sink: an open transaction for each task. The driver commits it after its epoch is decided."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
import pyarrow as pa

from tidegate.core.errors import TidegateError
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
from tidegate.sinks.base import JournalKeeper, OpenTransaction, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.kafka.check import violations_of
from tidegate.sinks.kafka.committer import KafkaCommitter
from tidegate.sinks.kafka.declared import layout_of
from tidegate.sinks.kafka.described import KafkaTarget, options_of, probed, target_of
from tidegate.sinks.kafka.evidence import forget_in, position_in
from tidegate.sinks.kafka.looked_at import Looked, looked_at
from tidegate.sinks.kafka.open_transactions import abort_unchanged, open_of_job, told_of_uids
from tidegate.sinks.kafka.producers import ProducerSettings, producers_of
from tidegate.sinks.kafka.slots import default_root
from tidegate.sinks.kafka.topic_limits import limits_of
from tidegate.sinks.kafka.transaction import KafkaTransaction
from tidegate.sinks.kafka.watch import OpenWatch
from tidegate.sinks.kafka.wires import reached
from tidegate.sinks.promises import Promise
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused


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
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="kafka.md",
            readers_see="the rows of each task's transaction at once, after the decision",
            after_crash="the next start commits open transactions; aborted ones are written again from the journal",
            needs="readers with `isolation.level=read_committed`; `transaction.max.timeout.ms` above the longest epoch",
        ),
    )

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
        self._watch = OpenWatch()
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
        with reached(self) as wire:
            return told_of_uids(self, wire, identity)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        self._identity = plan.identity
        self._timeout_ms = cluster_of(self).timeout_ms(self.transaction_timeout)

    def position(self, identity: SinkIdentity) -> Position | None:
        with reached(self) as wire:
            return position_in(wire, identity, prefix=self.prefix, topic=self.topic)

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        if self._identity is not None:
            self._watch.abort_orphans(self, self._identity)
            self._watch.begin_epoch(self, self._identity, finished_through, self._settings().timeout_ms)
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
        answers = self._committer.commit(committables)
        if all(answer.outcome is Outcome.COMMITTED for answer in answers):
            self._watch.end_epoch()
        return answers

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.commit(committables)

    def evidence(self, committable: Committable) -> Evidence:
        """ABSENT only while the evidence cannot have expired since the transaction was prepared."""
        return self._committer.evidence(committable)

    def fence(self, committable: Committable) -> None:
        self._committer.fence(committable)

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Under its own name: opening the producer fences every other process that could write it again."""
        return self._committer.redo(committable, batches)

    @property
    def _committer(self) -> KafkaCommitter:
        return KafkaCommitter(self, self._settings)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        with reached(self) as wire:
            return [each.producer.name for each in open_of_job(wire, self.prefix, identity)]

    def abort(self, transactions: Sequence[str]) -> None:
        with reached(self) as wire:
            abort_unchanged(wire, transactions, self._settings().timeout_ms)

    def forget(self, identity: SinkIdentity) -> None:
        with reached(self) as wire:
            forget_in(wire, identity, prefix=self.prefix)

    # --- settings ------------------------------------------------------------------------------------------

    def _settings(self) -> ProducerSettings:
        if self._timeout_ms is None:
            self._timeout_ms = cluster_of(self).timeout_ms(self.transaction_timeout)
        return ProducerSettings(self.clients, self.prefix, self._timeout_ms, _place())


def _place() -> Path:
    given = os.environ.get("TIDEGATE_PLACE")
    return Path(given) if given else default_root()
