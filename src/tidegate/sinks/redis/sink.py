"""The Redis sink: a row a key, visible inside its epoch, and replaced by an epoch that runs again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

import msgspec
import pyarrow as pa

from tidegate.core.errors import TidegateError
from tidegate.core.guarantees import Shows
from tidegate.core.health import Finding
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome, Position, SinkIdentity
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink, answer_all
from tidegate.sinks.promises import Promise
from tidegate.sinks.redis.check import BUCKETS, violations_of, worries_of
from tidegate.sinks.redis.committer import RedisCommitter
from tidegate.sinks.redis.declared import RowFormat
from tidegate.sinks.redis.described import RedisTarget, probed, settings_of, target_of
from tidegate.sinks.redis.evidence import RedisLedger
from tidegate.sinks.redis.names import KeyNames
from tidegate.sinks.redis.server import RedisAddress, reached
from tidegate.sinks.redis.transaction import RedisTransaction
from tidegate.sinks.redis.values import RedisRules
from tidegate.sinks.redis.words import ERRORS, told
from tidegate.sinks.row_values import InvalidText, option_of
from tidegate.sinks.rows import RowRefused

_LOG = logging.getLogger("tidegate")


class RedisSink(TwoPhaseSink):
    """Rows as keys of a Redis or Valkey server or of a Redis Cluster. A later row replaces the earlier one of its key.

    `url`: `redis://host:6379/0`, `rediss://...` with TLS, or `unix://...`. `options`: more options of redis-py
    (`username`, `password`, `ssl_ca_certs`, ...); a value may be `env:NAME` or `file:PATH`.

    A row is the key `PREFIX:KEY`, where KEY is the text of the column `key` (of several: with `:` between them).
    `format="hash"`: its columns are the fields of a hash, without nulls, beside the field `_tidegate`. `format="json"`:
    it is a string of JSON. `deleted`: a boolean column of the rows, which is not written; where it is true, the key is
    removed. `expire`: seconds or a timedelta after which a row that was not written again expires.

    `buckets`: for Redis Cluster, where it is necessary: keys are then named `{PREFIX.BUCKET}:KEY`, so that each bucket
    is in one slot. See `bucket_of` for readers. It cannot be changed.

    Rows are visible as soon as a task has written them. An epoch that runs again writes the same keys, so the content
    ends exact if the query computes the same rows again. A driver that was paused, or one of a generation before a
    restore, overwrites nothing: see docs/redis.md. The server must sync each write (`appendfsync always`).

    A row with a null in its key is refused. A row with a text that is not UTF-8 is refused (`invalid_text="refuse"`),
    or each such part becomes U+FFFD ("replace").
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    shows: ClassVar[Shows] = Shows.INSIDE
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="redis.md",
            readers_see="each row as soon as a task has written it; a late task or driver overwrites nothing",
            after_crash="the epoch runs again and replaces its rows: exact at the end for a deterministic query",
            needs="`appendonly yes`, `appendfsync always`, no eviction; on a cluster `buckets=`",
        ),
    )

    def __init__(
        self,
        uid: str,
        url: str,
        *,
        prefix: str,
        key: Sequence[str] | str,
        format: str = "hash",
        deleted: str | None = None,
        expire: float | timedelta | None = None,
        buckets: int | None = None,
        invalid_text: str = "refuse",
        options: Mapping[str, str | float] | None = None,
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.server = RedisAddress.of(url, options or {}, uid, is_cluster=buckets is not None)
        self.names = KeyNames(prefix, buckets)
        self.key = (key,) if isinstance(key, str) else tuple(key)
        self.format = option_of(RowFormat, "format", format, uid)
        self.deleted = deleted
        self.expire_seconds = expire.total_seconds() if isinstance(expire, timedelta) else expire
        self.rules = RedisRules(self.key, deleted, option_of(InvalidText, "invalid_text", invalid_text, uid))

    def bucket_of(self, key: str | bytes) -> int:
        """The bucket of a key, for readers: the CRC-32 of its text in UTF-8, modulo `buckets`."""
        return self.names.bucket_of(key.encode() if isinstance(key, str) else key)

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "redis"

    def describe(self) -> Mapping[str, object]:
        return msgspec.to_builtins(target_of(self))

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        target = msgspec.convert(described, RedisTarget)
        return cls(
            uid,
            "",
            prefix=target.prefix,
            key=target.key,
            format=target.format,
            deleted=target.deleted,
            expire=target.expire,
            buckets=target.buckets,
            invalid_text=target.invalid_text,
            options=settings_of(target, options),
            delivery=delivery,
        )

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, RedisTarget))

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return probed(self, what, plan)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        """Keys need no preparation. Warns of a server that does not keep what it has acknowledged."""
        with reached(self.server, self.uid) as session:
            if self.names.buckets is not None:
                session.put(self.names.ledger(0), BUCKETS, str(self.names.buckets))
            for worry, remedy in worries_of(session):
                _LOG.warning("sink %s: %s, %s; %s", self.uid, self.server, worry, remedy, extra={"event": "Unsafe"})

    def position(self, identity: SinkIdentity) -> Position | None:
        with reached(self.server, self.uid) as session:
            return RedisLedger(session, self.names).newest_of(identity)

    def begin_run(self, identity: SinkIdentity, run: int, run_token: str) -> str | None:
        with reached(self.server, self.uid) as session:
            return RedisLedger(session, self.names).begin_run(identity, run, run_token)

    # --- in a task -----------------------------------------------------------------------------------------

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return self.rules.refused(batch)

    def begin(self, attempt: Attempt) -> Transaction:
        return RedisTransaction(self, attempt)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return RedisCommitter(self).commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """The rows are visible already."""
        return answer_all(committables, Outcome.COMMITTED, "")

    def evidence(self, committable: Committable) -> Evidence:
        return RedisCommitter(self).evidence(committable)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Refuses rows of finished epochs from now on, and forgets which keys they have deleted."""
        if finished_through < 0:
            return
        try:
            with self.server.connected() as session:
                RedisLedger(session, self.names).clean(identity, finished_through)
        except ERRORS as error:
            _LOG.warning("sink %s: stamps of deleted keys stay for now: %s", self.uid, told(error))

    def forget(self, identity: SinkIdentity) -> None:
        """Other jobs may write the keys of this one from now on. The rows stay."""
        with reached(self.server, self.uid) as session:
            RedisLedger(session, self.names).forget(identity)
