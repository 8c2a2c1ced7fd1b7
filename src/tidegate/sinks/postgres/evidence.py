"""The table `_tidegate_evidence` beside the target: one row for each prepared transaction, written inside of it. It is
the only proof that the transaction has committed.

The key has the attempt. Two transactions of one attempt cannot both commit, because the server keeps the key unique: so
rows that are written again from a journal appear once, whatever a writer does that was paused meanwhile. Attempts of
one task have keys of their own: a retry does not wait for the row of the attempt before it.
"""

from __future__ import annotations

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.sinks.postgres.server import Session, run
from tidegate.sinks.sql_names import quoted

EVIDENCE = "_tidegate_evidence"

_OF_SINK = "job_id = %s AND query = %s AND sink = %s"
_OF_EPOCH = f"{_OF_SINK} AND generation = %s AND epoch = %s"


class EvidenceRows:
    """The evidence rows in a schema, through a connection."""

    def __init__(self, connection: Session, schema: str) -> None:
        self._connection = connection
        self._rows = f"{quoted(schema)}.{EVIDENCE}"

    def create(self) -> None:
        run(
            self._connection,
            f"CREATE TABLE IF NOT EXISTS {self._rows} (job_id text NOT NULL, query text NOT NULL, sink text NOT NULL,"
            " generation bigint NOT NULL, epoch bigint NOT NULL, attempt text NOT NULL, digest text NOT NULL,"
            " PRIMARY KEY (job_id, query, sink, generation, epoch, attempt))",
        )

    def record(self, attempt: Attempt, digest: str) -> None:
        """Write the row of an attempt inside its transaction.

        Raises psycopg.errors.UniqueViolation if the attempt has committed, psycopg.errors.LockNotAvailable if another
        transaction of the same attempt is open or prepared.
        """
        run(
            self._connection,
            f"INSERT INTO {self._rows} VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (*_epoch(attempt.sink, attempt.epoch), attempt.name, digest),
        )

    def digest_of(self, attempt: Attempt) -> str | None:
        """The digest of the committed transaction of an attempt; None if it has not committed."""
        found = run(
            self._connection,
            f"SELECT digest FROM {self._rows} WHERE {_OF_EPOCH} AND attempt = %s",
            (*_epoch(attempt.sink, attempt.epoch), attempt.name),
        ).fetchone()
        return None if found is None else found[0]

    def remove(self, identity: SinkIdentity) -> None:
        """Remove the rows of a sink with the identity's job id, of all generations."""
        run(self._connection, f"DELETE FROM {self._rows} WHERE {_OF_SINK}", _sink(identity))

    def remove_through(self, identity: SinkIdentity, finished_through: int, claims: str) -> None:
        """Remove the rows of finished epochs, and of older generations, that have no row in the ledger `claims`."""
        run(
            self._connection,
            f"DELETE FROM {self._rows} AS gone WHERE {_OF_SINK} AND (generation, epoch) <= (%s, %s) AND NOT EXISTS"
            f" (SELECT 1 FROM {claims} AS kept WHERE kept.query = gone.query AND kept.sink = gone.sink"
            " AND kept.job_id = gone.job_id AND kept.generation = gone.generation AND kept.epoch = gone.epoch)",
            (*_sink(identity), identity.generation, finished_through),
        )


def _sink(identity: SinkIdentity) -> tuple[str, str, str]:
    return identity.job_id, identity.query, identity.sink


def _epoch(identity: SinkIdentity, epoch: int) -> tuple[str, str, str, int, int]:
    return (*_sink(identity), identity.generation, epoch)
