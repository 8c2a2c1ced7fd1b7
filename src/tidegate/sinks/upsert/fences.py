"""The tables `_tidegate_fences` and `_tidegate_marks` of an upsert sink.

`_tidegate_fences` has a row for each owner, which is the sink of one job. `fence`: generation, run and token of the
only run that may write, or `forgotten`. `done`: the newest finished epoch; the target takes no row of it, or of an
earlier one. `_tidegate_marks` has a row for each attempt that has written all of its rows: its name and digest, until
the commit.

Why a late run writes nothing. A task locks the row of its owner for sharing, compares the fence, and holds the lock to
the commit of its rows. Raising a fence changes this row, so it waits for each such task; and a task that comes later
waits for it, and finds another fence. A task that was paused with the lock would hold up the raise: so its connection
is ended by the server (`database.py`), and its rows are rolled back.

What a mark proves. It is written in the transaction of the rows. A commit takes the marks away and writes the evidence;
where one is missing, the server has lost the rows, and the answer is LOST.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tidegate.core.records import Attempt, Committable, SinkIdentity
from tidegate.sinks.late_writes import LateWrites
from tidegate.sinks.stamps import (
    FORGOTTEN,
    fence_in_words,
    fence_of,
    is_before,
    owner_of,
    place_of_attempt,
    place_of_epoch,
)
from tidegate.sinks.upsert.session import UpsertSession

FENCES = "_tidegate_fences"
MARKS = "_tidegate_marks"
_OWNER_AT_MOST = 32


def short_owner_of(identity: SinkIdentity) -> str:
    """What stands for an owner in each stamp: a part of its SHA-256, in hexadecimal digits."""
    return hashlib.sha256(owner_of(identity).encode()).hexdigest()[:_OWNER_AT_MOST]


class Fences:
    """The two tables, through a session. Each call but `create` belongs into an open transaction."""

    def __init__(self, session: UpsertSession) -> None:
        self._session = session
        self._fences = session.own(FENCES)
        self._marks = session.own(MARKS)

    def create(self) -> None:
        """Create the tables if they are missing."""
        word, text, end = self._session.word, self._session.text, self._session.end_of_table
        for table, columns in (
            (
                self._fences,
                f"owner {word} NOT NULL PRIMARY KEY, told {text} NOT NULL, fence {text} NOT NULL, done {word} NOT NULL",
            ),
            (
                self._marks,
                f"owner {word} NOT NULL, attempt {word} NOT NULL, digest {word} NOT NULL, PRIMARY KEY (owner, attempt)",
            ),
        ):
            self._session.run(f"CREATE TABLE IF NOT EXISTS {table} ({columns}){end}")

    @property
    def is_there(self) -> bool:
        return self._session.has(FENCES) and self._session.has(MARKS)

    # --- runs ----------------------------------------------------------------------------------------------

    def begin_run(self, identity: SinkIdentity, run: int, run_token: str) -> str | None:
        """Raise the fence. Returns the later one that stands, in words, if there is one.

        Waits for the tasks of earlier runs that write just now; raises the client's error if that takes too long.
        """
        standing, mine = self._locked(identity), fence_of(identity.generation, run, run_token)
        if not is_before(standing, mine):
            return fence_in_words(standing)
        if standing != mine:
            self._put(identity, "fence", mine)
        return None

    def hold(self, attempt: Attempt, late: LateWrites) -> None:
        """Keep the fence as it is until the end of the transaction.

        Raises RUN_SUPERSEDED, EPOCH_FINISHED or EPOCH_FAILED if the attempt may write nothing.
        """
        rows = self._session.run(
            f"SELECT fence, done FROM {self._fences} WHERE owner = %s {self._session.shared}",
            (short_owner_of(attempt.sink),),
        )
        standing, done = rows[0] if rows else ("", "")
        if standing != fence_of(attempt.sink.generation, attempt.run, attempt.run_token):
            raise late.fenced(standing)
        if done >= place_of_epoch(attempt.sink.generation, attempt.epoch):
            raise late.finished(done)

    # --- epochs --------------------------------------------------------------------------------------------

    def mark(self, attempt: Attempt, digest: str) -> None:
        """Note that all rows of an attempt are in the table; also of one that was begun again."""
        place = (short_owner_of(attempt.sink), place_of_attempt(attempt))
        self._session.run(f"DELETE FROM {self._marks} WHERE owner = %s AND attempt = %s", place)
        self._session.run(f"INSERT INTO {self._marks} (owner, attempt, digest) VALUES (%s, %s, %s)", (*place, digest))

    def unmarked(self, committables: Sequence[Committable]) -> list[Committable]:
        """Those committables of an epoch whose mark is missing, or is another one."""
        attempt = committables[0].attempt
        rows = self._session.run(
            f"SELECT digest FROM {self._marks} WHERE owner = %s AND attempt >= %s AND attempt < %s",
            (short_owner_of(attempt.sink), *_places_of(attempt.sink, attempt.epoch, attempt.epoch)),
        )
        found = {digest for (digest,) in rows}
        return [each for each in committables if each.digest not in found]

    def finish(self, identity: SinkIdentity, epoch: int) -> None:
        """Take no more rows of epochs up to this one, and remove its marks."""
        self._raise_done(identity, epoch)
        self._session.run(
            f"DELETE FROM {self._marks} WHERE owner = %s AND attempt >= %s AND attempt < %s",
            (short_owner_of(identity), *_places_of(identity, epoch, epoch)),
        )

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Take no more rows of finished epochs, and remove the marks of those and of older generations."""
        self._raise_done(identity, finished_through)
        self._session.run(
            f"DELETE FROM {self._marks} WHERE owner = %s AND attempt < %s",
            (short_owner_of(identity), place_of_epoch(identity.generation, finished_through + 1)),
        )

    def forget(self, identity: SinkIdentity) -> None:
        """Let other owners take over the keys of this one, for ever: its late drivers are refused."""
        self._locked(identity)
        self._put(identity, "fence", FORGOTTEN)
        self._session.run(f"DELETE FROM {self._marks} WHERE owner = %s", (short_owner_of(identity),))

    # --- helpers -------------------------------------------------------------------------------------------

    def _locked(self, identity: SinkIdentity) -> str:
        """The standing fence, with its row locked until the end of the transaction."""
        owner = short_owner_of(identity)
        self._session.run(
            f"INSERT INTO {self._fences} (owner, told, fence, done) VALUES (%s, %s, '', '')"
            f" {self._session.unless_there}",
            (owner, owner_of(identity)),
        )
        rows = self._session.run(f"SELECT fence FROM {self._fences} WHERE owner = %s {self._session.alone}", (owner,))
        return rows[0][0]

    def _put(self, identity: SinkIdentity, column: str, value: str) -> None:
        self._session.run(
            f"UPDATE {self._fences} SET {column} = %s WHERE owner = %s", (value, short_owner_of(identity))
        )

    def _raise_done(self, identity: SinkIdentity, epoch: int) -> None:
        place = place_of_epoch(identity.generation, epoch)
        self._session.run(
            f"UPDATE {self._fences} SET done = %s WHERE owner = %s AND done < %s",
            (place, short_owner_of(identity), place),
        )


def _places_of(identity: SinkIdentity, first: int, last: int) -> tuple[str, str]:
    """Where the places of attempts of these epochs begin, and where they have ended."""
    return place_of_epoch(identity.generation, first), place_of_epoch(identity.generation, last + 1)
