"""The table `_tidegate_ledger` beside the target: one row for each sink and epoch.

Of a *staged* epoch the row is written in the transaction that takes the epoch's rows: it is the only proof of the
commit. Of a *prepared* epoch it is written before the first of its transactions is committed: it is the claim that the
epoch consists of exactly these transactions. Their proofs are rows of their own (module `evidence`).

`committables` holds the digests of the epoch's transactions, sorted, one on each line. `digest` is the SHA-256 of
exactly this text (`epoch_digest`).

Each commit first locks the row of its owner in `_tidegate_owners`, and only then looks into the ledger. So of two
drivers that commit at once the second one sees what the first one did. It is a lock on a row, not an advisory lock:
that would end with the session on a server that only speaks PostgreSQL's protocol, or not exist there.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from tidegate.core.records import Committable, Position, SinkIdentity, digest_of_all
from tidegate.sinks.postgres.evidence import EVIDENCE, EvidenceRows
from tidegate.sinks.postgres.protocol import CommitProtocol
from tidegate.sinks.postgres.server import Session, run
from tidegate.sinks.sql_names import quoted
from tidegate.sinks.standing import Entry, Standing, standing_of_epoch, standing_of_one

LEDGER = "_tidegate_ledger"
OWNERS = "_tidegate_owners"

KEPT_ROWS = 100
"""Number of rows that are kept for each sink: the newest ones. Recovery needs only the last few epochs."""

_OF_SINK = "job = %s AND query = %s AND sink = %s"
_OF_JOB_ID = "query = %s AND sink = %s AND job_id = %s"
"""Under any job name: the job may have moved to another name."""
_NEWEST_FIRST = "ORDER BY generation DESC, epoch DESC LIMIT 1"


class Ledger:
    """The ledger in a schema, through a connection."""

    def __init__(self, connection: Session, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._rows = f"{quoted(schema)}.{LEDGER}"
        self._owners = f"{quoted(schema)}.{OWNERS}"
        self._evidence = f"{quoted(schema)}.{EVIDENCE}"
        self.evidence = EvidenceRows(connection, schema)

    def create(self) -> None:
        """Create the three tables if they are missing. Two drivers may do it at once."""
        if self._is_there():
            return
        run(
            self._connection,
            f"CREATE TABLE IF NOT EXISTS {self._rows} (job text NOT NULL, query text NOT NULL, sink text NOT NULL,"
            " job_id text NOT NULL, generation bigint NOT NULL, epoch bigint NOT NULL, digest text NOT NULL,"
            " committables text NOT NULL, protocol text NOT NULL, PRIMARY KEY (job, query, sink, generation, epoch),"
            " UNIQUE (query, sink, job_id, job, generation, epoch))",
        )
        run(
            self._connection,
            f"CREATE TABLE IF NOT EXISTS {self._owners} (job text NOT NULL, query text NOT NULL, sink text NOT NULL,"
            " PRIMARY KEY (job, query, sink))",
        )
        self.evidence.create()

    def lock(self, identity: SinkIdentity) -> None:
        """Lock the owner until the end of the open transaction.

        Raises psycopg.OperationalError if another driver holds it for too long.
        """
        run(self._connection, f"INSERT INTO {self._owners} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", _sink(identity))
        locked = run(
            self._connection, f"SELECT 1 FROM {self._owners} WHERE {_OF_SINK} FOR UPDATE", _sink(identity)
        ).fetchone()
        if locked is None:
            raise psycopg.OperationalError(f"the row of this sink in {OWNERS} was removed meanwhile")

    def record(self, identity: SinkIdentity, entry: Entry, protocol: CommitProtocol) -> None:
        """Write the row of an epoch inside the open transaction, and delete the oldest rows."""
        run(
            self._connection,
            f"INSERT INTO {self._rows} VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (*_sink(identity), *entry.row, protocol.value),
        )
        run(
            self._connection,
            f"DELETE FROM {self._rows} WHERE {_OF_SINK} AND (generation, epoch) <= "
            f"(SELECT generation, epoch FROM {self._rows} WHERE {_OF_SINK} {_NEWEST_FIRST} OFFSET {KEPT_ROWS})",
            (*_sink(identity), *_sink(identity)),
        )

    def touch(self, identity: SinkIdentity, epoch: int) -> None:
        """Write the row of an epoch again as it is.

        The commit of this transaction is on disk, and on the standbys that a commit waits for, only behind the first
        one, whose driver may have died in that wait.
        """
        run(
            self._connection,
            f"UPDATE {self._rows} SET digest = digest WHERE {_OF_SINK} AND generation = %s AND epoch = %s",
            (*_sink(identity), identity.generation, epoch),
        )

    def entry_of(self, identity: SinkIdentity, epoch: int) -> Entry | None:
        """The row of one epoch in the identity's generation, of any job id."""
        row = run(
            self._connection,
            f"SELECT job_id, generation, epoch, digest, committables FROM {self._rows}"
            f" WHERE {_OF_SINK} AND generation = %s AND epoch = %s",
            (*_sink(identity), identity.generation, epoch),
        ).fetchone()
        return None if row is None else Entry.of_row(*row)

    def newest_of(self, identity: SinkIdentity) -> Position | None:
        """The newest row of any generation, for this job's name or its id. None also if the ledger does not exist."""
        if not self._is_there():
            return None
        row = run(
            self._connection,
            f"SELECT job_id, generation, epoch, digest FROM {self._rows}"
            f" WHERE {_OF_SINK} OR {_OF_JOB_ID} {_NEWEST_FIRST}",
            (*_sink(identity), *_mine(identity)),
        ).fetchone()
        if row is None:
            return None
        job_id, generation, epoch, digest = row
        return Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest)

    def newest_proved(self, identity: SinkIdentity) -> Position | None:
        """As `newest_of`, without epochs of which nothing is proved to be committed.

        The digest is that of the transactions that are proved: a part of them, if not all of an epoch have committed.
        """
        if not self._is_there():
            return None
        row = run(
            self._connection,
            f"SELECT job_id, generation, epoch, digest, proved FROM {self._rows} AS claims CROSS JOIN LATERAL"
            f" (SELECT pg_catalog.array_agg(proofs.digest) FROM {self._evidence} AS proofs"
            " WHERE proofs.query = claims.query AND proofs.sink = claims.sink AND proofs.job_id = claims.job_id"
            " AND proofs.generation = claims.generation AND proofs.epoch = claims.epoch"
            " AND proofs.digest = ANY (pg_catalog.string_to_array(claims.committables, E'\\n'))) AS found (proved)"
            f" WHERE ({_OF_SINK} OR {_OF_JOB_ID}) AND (protocol = %s OR proved IS NOT NULL) {_NEWEST_FIRST}",
            (*_sink(identity), *_mine(identity), CommitProtocol.STAGED.value),
        ).fetchone()
        if row is None:
            return None
        job_id, generation, epoch, digest, proved = row
        found = digest if proved is None else digest_of_all(proved)
        return Position(job_id=job_id, generation=generation, epoch=epoch, digest=found)

    def standing_of(self, committables: Sequence[Committable]) -> Standing:
        """The finding for all transactions of an epoch."""
        wanted, identity = Entry.of(committables), committables[0].attempt.sink
        return standing_of_epoch(wanted, self.entry_of(identity, wanted.epoch), self.newest_of(identity))

    def standing_of_one(self, committable: Committable) -> Standing:
        """The finding for one transaction without the others of its epoch. OPEN also if the ledger does not exist."""
        attempt = committable.attempt
        newest = self.newest_of(attempt.sink)
        found = None if newest is None else self.entry_of(attempt.sink, attempt.epoch)
        return standing_of_one(committable, found, newest)

    def is_proved(self, committable: Committable) -> bool:
        """True if the evidence row of a prepared transaction is there."""
        attempt = committable.attempt
        return self._is_there() and self.evidence.digest_of(attempt) == committable.digest

    def remove(self, identity: SinkIdentity) -> None:
        """Remove the rows of a sink with the identity's job id, of all generations."""
        if self._is_there():
            run(self._connection, f"DELETE FROM {self._rows} WHERE {_OF_JOB_ID}", _mine(identity))
            run(self._connection, f"DELETE FROM {self._owners} WHERE {_OF_SINK}", _sink(identity))
            self.evidence.remove(identity)

    def trim_evidence(self, identity: SinkIdentity, finished_through: int) -> None:
        """Remove the evidence of finished epochs that have no row here any more, or never had one (at-least-once).

        An epoch with a row here keeps its evidence: what is claimed and not proved has not committed.
        """
        if self._is_there():
            self.evidence.remove_through(identity, finished_through, self._rows)

    def _is_there(self) -> bool:
        found = run(
            self._connection,
            "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s",
            (self._schema, EVIDENCE),
        ).fetchone()
        return found is not None


def _sink(identity: SinkIdentity) -> tuple[str, str, str]:
    return identity.job, identity.query, identity.sink


def _mine(identity: SinkIdentity) -> tuple[str, str, str]:
    return identity.query, identity.sink, identity.job_id
