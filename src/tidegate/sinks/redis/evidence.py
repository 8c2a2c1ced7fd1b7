"""The ledger of each bucket: fences, and the evidence of the newest committed epoch.

What the evidence proves. Each task marks what it has written, behind its last row; a driver replaces the marks by the
evidence when the epoch is decided. A server keeps its writes in their order, so where a mark was, the rows of the epoch
were; a mark that is missing shows that the server has lost its newest writes, and the answer is LOST. A target whose
evidence is older than the job's own ledger was put back from an older copy, or has lost its newest writes; and
evidence of another job id shows that the keys belong to another job. It proves nothing about single keys: what has
expired, was evicted, or was removed by others leaves no trace in it.

With buckets each one has its own, because each may be on another server. A start compares the oldest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, unquote

from tidegate.core.records import Committable, Position, SinkIdentity
from tidegate.sinks.redis.names import KeyNames
from tidegate.sinks.redis.scripts import BEGIN_RUN, CLEAN, COMMIT, FORGET
from tidegate.sinks.redis.server import Call, RedisSession
from tidegate.sinks.stamps import fence_in_words, fence_of, names_of, numbers_of, owner_of, place_of_epoch
from tidegate.sinks.standing import Entry, Standing, standing_of_one

_EVIDENCE = "evidence "
_WEAKEST_FIRST = (Standing.OTHER, Standing.LATER, Standing.OPEN, Standing.SAME)


class RedisLedger:
    """The ledgers of all buckets of a sink, through a session."""

    def __init__(self, session: RedisSession, names: KeyNames) -> None:
        self._session = session
        self._names = names

    # --- fences --------------------------------------------------------------------------------------------

    def begin_run(self, identity: SinkIdentity, run: int, run_token: str) -> str | None:
        """Raise the fence of every bucket. The later fence that stands in one of them, if there is one."""
        mine = fence_of(identity.generation, run, run_token)
        calls = [
            Call(BEGIN_RUN, [self._names.ledger(bucket)], [owner_of(identity), mine])
            for bucket in self._names.all_buckets()
        ]
        standing = {answer.decode() for answer in self._session.run(calls)} - {mine}
        return None if not standing else fence_in_words(max(standing))

    # --- evidence ------------------------------------------------------------------------------------------

    def record(self, identity: SinkIdentity, entry: Entry, attempts: Mapping[int, Sequence[str]]) -> set[str]:
        """Write the evidence of an epoch. What the buckets have answered: taken, same, other, later, or lost.

        `attempts`: by bucket, the places of the attempts that have rows there.
        """
        values = [
            owner_of(identity),
            names_of(identity),
            place_of_epoch(entry.generation, entry.epoch),
            _text_of(entry),
        ]
        calls = [
            Call(COMMIT, [self._names.ledger(bucket)], [*values, *attempts.get(bucket, ())])
            for bucket in self._names.all_buckets()
        ]
        return {answer.decode() for answer in self._session.run(calls)}

    def standing_of(self, committable: Committable) -> Standing:
        """What the buckets prove about one transaction: the weakest of what each one does."""
        found = [_standing(fields, committable) for fields in self._ledgers()]
        return next(each for each in _WEAKEST_FIRST if each in found)

    def newest_of(self, identity: SinkIdentity) -> Position | None:
        """The oldest of the buckets' newest evidence, for this job's name or its id."""
        newest = [_newest(fields, identity) for fields in self._ledgers()]
        there = [entry for entry in newest if entry is not None]
        others = [entry for entry in there if entry.job_id != identity.job_id]
        if others:
            return others[0].position
        if not there or len(there) < len(newest):
            return None
        return min(there, key=lambda entry: (entry.generation, entry.epoch)).position

    # --- clean-up ------------------------------------------------------------------------------------------

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Some keys at a time: the server serves others in between."""
        values = [owner_of(identity), place_of_epoch(identity.generation, finished_through)]
        at = dict.fromkeys(self._names.all_buckets(), "0")
        while at:
            calls = [
                Call(CLEAN, [self._names.ledger(bucket), self._names.deleted(bucket)], [*values, cursor])
                for bucket, cursor in at.items()
            ]
            reached = zip(at, self._session.run(calls), strict=True)
            at = {bucket: cursor.decode() for bucket, cursor in reached if cursor != b"0"}

    def forget(self, identity: SinkIdentity) -> None:
        of_any_job = "/" + names_of(identity).partition("/")[2]
        values = [owner_of(identity), of_any_job, quote(identity.job_id, safe="")]
        self._session.run([Call(FORGET, [self._names.ledger(bucket)], values) for bucket in self._names.all_buckets()])

    # --- reading -------------------------------------------------------------------------------------------

    def _ledgers(self) -> Iterator[Mapping[str, str]]:
        for bucket in self._names.all_buckets():
            yield self._session.hash(self._names.ledger(bucket))


def _standing(ledger: Mapping[str, str], committable: Committable) -> Standing:
    attempt = committable.attempt
    held = ledger.get(_EVIDENCE + names_of(attempt.sink))
    newest = None if held is None else _entry_of(held)
    if newest is None:
        return standing_of_one(committable, None, None)
    is_its = (newest.generation, newest.epoch) == (attempt.sink.generation, attempt.epoch)
    return standing_of_one(committable, newest if is_its else None, newest.position)


def _newest(ledger: Mapping[str, str], identity: SinkIdentity) -> Entry | None:
    """The newest evidence for the names of this sink, or for its job id under another job name."""
    mine, of_any_job = _EVIDENCE + names_of(identity), "/" + names_of(identity).partition("/")[2]
    entries = [
        entry
        for field, value in ledger.items()
        if field.startswith(_EVIDENCE) and field.endswith(of_any_job)
        for entry in [_entry_of(value)]
        if field == mine or entry.job_id == identity.job_id
    ]
    return max(entries, key=lambda entry: (entry.generation, entry.epoch), default=None)


def _text_of(entry: Entry) -> str:
    """The place of the epoch, job id, digest, and the digest of each transaction, with a space between them."""
    place, whose = place_of_epoch(entry.generation, entry.epoch), quote(entry.job_id, safe="")
    return " ".join([place, whose, entry.digest, *entry.committables])


def _entry_of(text: str) -> Entry:
    place, whose, digest, *committables = text.split(" ")
    generation, epoch = numbers_of(place)
    return Entry(
        job_id=unquote(whose), generation=generation, epoch=epoch, digest=digest, committables=tuple(committables)
    )
