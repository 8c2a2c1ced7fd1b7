"""The table `_tidegate_ledger` beside the target: one row for each sink and epoch.

Of a *staged* epoch the row is written in the transaction that takes the epoch's rows: it is the only proof of the
commit. Of an epoch by XA it is written before the first of its branches is committed: it is the claim that the epoch
consists of exactly these branches. Their proofs are rows of their own (module `evidence`).

`committables` holds the digests of the epoch's transactions, sorted, one on each line. `digest` is the SHA-256 of
exactly this text (`epoch_digest`). Names of jobs, queries and sinks are too long for an index of InnoDB (3072 bytes),
and a collation might take two of them for one. So rows are found by hashes: `owner` of job, query and sink, `mine` of
job id, query and sink.

Each commit first locks the row of its owner in `_tidegate_owners`, and only then looks into the ledger. So of two
drivers that commit at once the second one sees what the first one did. The lock is a write of that row (`turns`): on a
cluster whose nodes all take writes, a lock holds on one node only, but two writes of one row conflict at their commit
(galeracluster.com/library/documentation/certification-based-replication.html).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from tidegate.core.records import Committable, Position, SinkIdentity, digest_of_all
from tidegate.sinks.mysql.evidence import CREATE_EVIDENCE, EVIDENCE, BranchEvidence, mine_of
from tidegate.sinks.mysql.names import hash_of
from tidegate.sinks.mysql.protocol import MySQLProtocol
from tidegate.sinks.mysql.server import MySQLSession, run
from tidegate.sinks.standing import Entry, Standing, standing_of_epoch, standing_of_one

LEDGER = "_tidegate_ledger"
OWNERS = "_tidegate_owners"

KEPT_ROWS = 100
"""Number of rows that are kept for each sink: the newest ones. Recovery needs only the last few epochs."""

_NEWEST_FIRST = "ORDER BY generation DESC, epoch DESC"
_HASH = "CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
_NAME = "TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
_CREATE = (
    f"CREATE TABLE IF NOT EXISTS {LEDGER} (owner {_HASH}, mine {_HASH}, job {_NAME}, query {_NAME}, sink {_NAME},"
    f" job_id {_NAME}, generation BIGINT NOT NULL, epoch BIGINT NOT NULL, digest {_HASH},"
    " committables LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,"
    " protocol VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, touched BIGINT NOT NULL DEFAULT 0,"
    " PRIMARY KEY (owner, generation, epoch), KEY (mine, generation, epoch)) ENGINE=InnoDB",
    f"CREATE TABLE IF NOT EXISTS {OWNERS} (owner {_HASH} PRIMARY KEY, told {_NAME},"
    " turns BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB",
    CREATE_EVIDENCE,
)


class MySQLLedger:
    """The ledger in the database of a connection."""

    def __init__(self, connection: MySQLSession) -> None:
        self._connection = connection
        self.evidence = BranchEvidence(connection)

    def create(self) -> None:
        """Create the three tables if they are missing. Two drivers may do it at once."""
        for statement in _CREATE:
            run(self._connection, statement)

    def lock(self, identity: SinkIdentity) -> None:
        """Lock the owner until the end of the open transaction.

        Raises OperationalError if another driver holds it for too long, or has it on another node of a cluster. This
        form takes the exclusive lock at once: a plain INSERT of a row that is there takes a shared one, and two drivers
        would end in a deadlock (dev.mysql.com/doc/refman/8.4/en/innodb-locks-set.html).
        """
        told = json.dumps([identity.job, identity.query, identity.sink])
        run(
            self._connection,
            f"INSERT INTO {OWNERS} (owner, told) VALUES (%s, %s) ON DUPLICATE KEY UPDATE turns = turns + 1",
            (owner_of(identity), told),
        )

    def record(self, identity: SinkIdentity, entry: Entry, protocol: MySQLProtocol) -> None:
        """Write the row of an epoch inside the open transaction, and delete the oldest rows."""
        run(
            self._connection,
            f"INSERT INTO {LEDGER} (owner, mine, job, query, sink, job_id, generation, epoch, digest, committables,"
            " protocol) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (*_names(identity), *entry.row, protocol.value),
        )
        oldest = run(
            self._connection,
            f"SELECT generation, epoch FROM {LEDGER} WHERE owner = %s {_NEWEST_FIRST} LIMIT 1 OFFSET {KEPT_ROWS}",
            (owner_of(identity),),
        )
        for generation, epoch in oldest:
            run(
                self._connection,
                f"DELETE FROM {LEDGER} WHERE owner = %s AND (generation < %s OR (generation = %s AND epoch <= %s))",
                (owner_of(identity), generation, generation, epoch),
            )

    def touch(self, identity: SinkIdentity, epoch: int) -> None:
        """Change the row of an epoch, in a column that says nothing.

        The commit of this transaction is on disk, and on the replicas that a commit waits for, only behind the first
        one, whose driver may have died in that wait. (An update that changes nothing is not written.)
        """
        run(
            self._connection,
            f"UPDATE {LEDGER} SET touched = touched + 1 WHERE owner = %s AND generation = %s AND epoch = %s",
            (owner_of(identity), identity.generation, epoch),
        )

    def entry_of(self, identity: SinkIdentity, epoch: int) -> Entry | None:
        """The row of one epoch in the identity's generation, of any job id."""
        rows = run(
            self._connection,
            f"SELECT job_id, generation, epoch, digest, committables FROM {LEDGER}"
            " WHERE owner = %s AND generation = %s AND epoch = %s",
            (owner_of(identity), identity.generation, epoch),
        )
        return Entry.of_row(*rows[0]) if rows else None

    def newest_of(self, identity: SinkIdentity) -> Position | None:
        """The newest row of any generation, for this job's name or its id. None also if the ledger does not exist."""
        if not self._is_there():
            return None
        rows = run(
            self._connection,
            f"SELECT job_id, generation, epoch, digest FROM {LEDGER} WHERE owner = %s OR mine = %s"
            f" {_NEWEST_FIRST} LIMIT 1",
            (owner_of(identity), mine_of(identity)),
        )
        for job_id, generation, epoch, digest in rows:
            return Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest)
        return None

    def newest_proved(self, identity: SinkIdentity) -> Position | None:
        """As `newest_of`, without epochs of which nothing is proved to be committed.

        The digest is that of the branches that are proved: a part of them, if not all of an epoch have committed.
        """
        if not self._is_there():
            return None
        rows = run(
            self._connection,
            f"SELECT mine, job_id, generation, epoch, digest, committables, protocol FROM {LEDGER}"
            f" WHERE owner = %s OR mine = %s {_NEWEST_FIRST}",
            (owner_of(identity), mine_of(identity)),
        )
        for mine, job_id, generation, epoch, digest, committables, protocol in rows:
            if protocol == MySQLProtocol.STAGED.value:
                return Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest)
            proved = set(self.evidence.digests_of(mine, generation, epoch)) & set(committables.split("\n"))
            if proved:
                return Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest_of_all(proved))
        return None

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
        """True if the evidence row of a branch is there."""
        return self._is_there() and self.evidence.digest_of(committable.attempt) == committable.digest

    def remove(self, identity: SinkIdentity) -> None:
        """Remove the rows of a sink with the identity's job id, of all generations."""
        if self._is_there():
            run(self._connection, f"DELETE FROM {LEDGER} WHERE mine = %s", (mine_of(identity),))
            run(self._connection, f"DELETE FROM {OWNERS} WHERE owner = %s", (owner_of(identity),))
            self.evidence.remove(identity)

    def trim_evidence(self, identity: SinkIdentity, finished_through: int) -> None:
        """Remove the evidence of finished epochs that have no row here any more, or never had one (at-least-once).

        An epoch with a row here keeps its evidence: what is claimed and not proved has not committed.
        """
        if self._is_there():
            self.evidence.remove_through(identity, finished_through, LEDGER)

    def _is_there(self) -> bool:
        """True if all three tables are there: this is the last one that is created."""
        found = run(
            self._connection,
            "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
            (EVIDENCE,),
        )
        return bool(found)


def owner_of(identity: SinkIdentity) -> str:
    """What stands for a sink under its job's name."""
    return hash_of(identity.job, identity.query, identity.sink)


def _names(identity: SinkIdentity) -> tuple[str, str, str, str, str]:
    return owner_of(identity), mine_of(identity), identity.job, identity.query, identity.sink
