"""The transaction of the Redis sink, in a task: its rows are written, and visible, as they come.

Why a row of a paused run changes nothing: each script first compares the fence of its bucket with the run of the task,
and a script runs alone (redis.io/docs/latest/develop/programmability/eval-intro, "Atomicity"). So either it has run
before the next run has raised the fence, and the rows that this run writes later replace the row; or it is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import islice

import pyarrow as pa

from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.arrow import batch_of, columns_of
from tidegate.sinks.base import Transaction
from tidegate.sinks.late_writes import LateWrites
from tidegate.sinks.redis.declared import DeclaredRedisSink, RowFormat
from tidegate.sinks.redis.scripts import PREPARE, WRITE_HASHES, WRITE_STRINGS, Refusal, Script
from tidegate.sinks.redis.server import Call, RedisSession, unusable
from tidegate.sinks.redis.values import as_fields, as_json, deletes, keys_of
from tidegate.sinks.redis.words import ERRORS
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.stamps import fence_of, owner_of, place_of_attempt, place_of_epoch, place_of_row

_ROWS_AT_ONCE = 100
"""Rows of one script: meanwhile the server answers no other client."""
_BYTES_AT_ONCE = 1 << 20
_CALLS_AT_ONCE = 16
"""Scripts that are sent before the first answer is read."""


class RedisTransaction(Transaction):
    """Writes the rows of one attempt. Connects when the first rows come."""

    def __init__(self, sink: DeclaredRedisSink, attempt: Attempt) -> None:
        self._sink = sink
        self._attempt = attempt
        self._open = ExitStack()
        self._session: RedisSession | None = None
        self._checksum = hashlib.sha256()
        self._buckets = set[int]()
        self._rows = 0
        fence = fence_of(attempt.sink.generation, attempt.run, attempt.run_token)
        expire = sink.expire_seconds
        self._of_attempt: tuple[str, ...] = (
            owner_of(attempt.sink),
            fence,
            place_of_epoch(attempt.sink.generation, attempt.epoch),
            place_of_attempt(attempt),
            "" if expire is None else str(max(1, round(expire * 1000))),
        )

    def write(self, batch: pa.RecordBatch) -> None:
        refused = self._sink.rules.refused(batch)
        if refused:
            raise refused[0]
        calls = self._calls(self._sink.rules.prepared(batch))
        while some := list(islice(calls, _CALLS_AT_ONCE)):
            self._run(some)
        self._rows += batch.num_rows

    def pre_commit(self) -> Committable | None:
        """Mark what was written, in each bucket."""
        calls = [self._call_of(PREPARE, bucket) for bucket in sorted(self._buckets)]
        self._run(calls)
        self.abort()
        if self._rows == 0:
            return None
        digest = committable_digest(self._attempt, self._checksum.hexdigest())
        buckets = ",".join(map(str, sorted(self._buckets)))
        return Committable(attempt=self._attempt, rows=self._rows, digest=digest, handle={"buckets": buckets})

    def abort(self) -> None:
        """Close the connection. Rows that were written stay: the next attempt of the task replaces them."""
        with suppress(*ERRORS):
            self._open.close()

    def _run(self, calls: Sequence[Call]) -> None:
        if not calls:
            return
        try:
            for answer in self._connected().run(calls):
                self._judge(answer)
        except ERRORS as error:
            raise unusable(error, self._sink.server, self._sink.uid) from None

    def _call_of(self, script: Script, bucket: int) -> Call:
        names = self._sink.names
        return Call(script, [names.ledger(bucket), names.deleted(bucket)], self._of_attempt)

    # --- rows ----------------------------------------------------------------------------------------------

    def _calls(self, batch: pa.RecordBatch) -> Iterator[Call]:
        """The rows, in scripts of a bucket each, in their order within it."""
        sink = self._sink
        keys, gone = keys_of(batch, sink.key), deletes(batch, sink.deleted)
        columns = [
            (name, column)
            for name, column in zip(batch.schema.names, columns_of(batch), strict=True)
            if name != sink.deleted
        ]
        kept = batch_of([column for _, column in columns], [name for name, _ in columns])
        values = as_fields(kept) if sink.format is RowFormat.HASH else as_json(kept)
        of_bucket: dict[int, _Bucketful] = {}
        for row, key in enumerate(keys):
            bucket = sink.names.bucket_of(key)
            written = () if gone[row] else values[row]
            self._checksum.update(b"\0".join((key, *written, b"")))
            rows = of_bucket.get(bucket)
            if rows is None:
                rows = of_bucket[bucket] = _Bucketful(sink, bucket)
                self._buckets.add(bucket)
            rows.add(key, place_of_row(self._rows + row), written)
            if rows.is_full:
                yield of_bucket.pop(bucket).call(self._of_attempt)
        for rows in of_bucket.values():
            yield rows.call(self._of_attempt)

    def _connected(self) -> RedisSession:
        if self._session is None:
            self._session = self._open.enter_context(self._sink.server.connected())
        return self._session

    # --- refusals ------------------------------------------------------------------------------------------

    def _judge(self, answer: Sequence[bytes]) -> None:
        first, *details = answer
        if first == b"taken":
            return
        late = LateWrites(self._attempt, f"sink {self._sink.uid!r}: {self._sink.server}, prefix {self._prefix!r}")
        match Refusal(first):
            case Refusal.FENCED:
                raise late.fenced(details[0].decode())
            case Refusal.FINISHED:
                raise late.finished(details[0].decode())
            case Refusal.OWNED:
                key, owner = (_shown(each) for each in details)
                raise late.owned(key, owner, "give this sink another prefix=")
            case Refusal.KIND:
                key, kind = (_shown(each) for each in details)
                raise RowRefused(
                    expected=f"a key that is absent, or holds a {self._wanted}",
                    found=f"{key}, a {kind}",
                    next_step="remove it, or give the sink another prefix=; then start again",
                    details={"key": key},
                )

    @property
    def _prefix(self) -> str:
        return self._sink.names.prefix

    @property
    def _wanted(self) -> str:
        return "hash" if self._sink.format is RowFormat.HASH else "string"


class _Bucketful:
    """Rows of one bucket for one script."""

    def __init__(self, sink: DeclaredRedisSink, bucket: int) -> None:
        self._script = WRITE_HASHES if sink.format is RowFormat.HASH else WRITE_STRINGS
        self._row = sink.names.rows(bucket)
        self._stamp = sink.names.stamps(bucket) if sink.format is RowFormat.JSON else None
        self._keys: list[bytes | str] = [sink.names.ledger(bucket), sink.names.deleted(bucket)]
        self._values: list[bytes | str | int] = []
        self._count = 0
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._count >= _ROWS_AT_ONCE or self._bytes >= _BYTES_AT_ONCE

    def add(self, key: bytes, place: str, written: Sequence[bytes]) -> None:
        self._keys.append(self._row + key)
        if self._stamp is not None:
            self._keys.append(self._stamp + key)
        self._values += (place, len(written), *written)
        self._count += 1
        self._bytes += len(key) + sum(map(len, written))

    def call(self, of_attempt: Sequence[str]) -> Call:
        return Call(self._script, self._keys, [*of_attempt, *self._values])


def _shown(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")
