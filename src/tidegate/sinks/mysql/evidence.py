"""The table `_tidegate_evidence` beside the target: one row for each XA branch, written inside of it. It is the only
proof that the branch has committed.

The key has the attempt. Two branches of one attempt cannot both commit, because the server keeps the key unique: so
rows that are written again from a journal appear once, whatever a writer does that was paused meanwhile. Attempts of
one task have keys of their own: a retry does not wait for the row of the attempt before it. Names stand as hashes, as
in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.sinks.mysql.names import hash_of
from tidegate.sinks.mysql.server import MySQLSession, run

EVIDENCE = "_tidegate_evidence"

_HASH = "CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"
CREATE_EVIDENCE = (
    f"CREATE TABLE IF NOT EXISTS {EVIDENCE} (mine {_HASH}, generation BIGINT NOT NULL, epoch BIGINT NOT NULL,"
    f" attempt {_HASH}, digest {_HASH}, PRIMARY KEY (mine, generation, epoch, attempt)) ENGINE=InnoDB"
)
_OF_EPOCH = "mine = %s AND generation = %s AND epoch = %s"


class BranchEvidence:
    """The evidence rows in the database of a connection."""

    def __init__(self, connection: MySQLSession) -> None:
        self._connection = connection

    def record(self, attempt: Attempt, digest: str) -> None:
        """Write the row of an attempt inside its branch.

        Raises IntegrityError if the attempt has committed, OperationalError if another branch of the same attempt is
        open or prepared.
        """
        run(
            self._connection,
            f"INSERT INTO {EVIDENCE} VALUES (%s, %s, %s, %s, %s)",
            (*_epoch(attempt.sink, attempt.epoch), hash_of(attempt.name), digest),
        )

    def digest_of(self, attempt: Attempt) -> str | None:
        """The digest of the committed branch of an attempt; None if it has not committed."""
        rows = run(
            self._connection,
            f"SELECT digest FROM {EVIDENCE} WHERE {_OF_EPOCH} AND attempt = %s",
            (*_epoch(attempt.sink, attempt.epoch), hash_of(attempt.name)),
        )
        return str(rows[0][0]) if rows else None

    def digests_of(self, mine: str, generation: int, epoch: int) -> Sequence[str]:
        """The digests of all committed branches of an epoch. `mine`: as in the ledger."""
        rows = run(self._connection, f"SELECT digest FROM {EVIDENCE} WHERE {_OF_EPOCH}", (mine, generation, epoch))
        return [str(digest) for (digest,) in rows]

    def remove(self, identity: SinkIdentity) -> None:
        """Remove the rows of a sink with the identity's job id, of all generations."""
        run(self._connection, f"DELETE FROM {EVIDENCE} WHERE mine = %s", (mine_of(identity),))

    def remove_through(self, identity: SinkIdentity, finished_through: int, ledger: str) -> None:
        """Remove the rows of finished epochs, and of older generations, that have no row in the `ledger`."""
        run(
            self._connection,
            f"DELETE gone FROM {EVIDENCE} gone LEFT JOIN {ledger} kept ON kept.mine = gone.mine"
            " AND kept.generation = gone.generation AND kept.epoch = gone.epoch WHERE gone.mine = %s"
            " AND kept.mine IS NULL"
            " AND (gone.generation < %s OR (gone.generation = %s AND gone.epoch <= %s))",
            (mine_of(identity), identity.generation, identity.generation, finished_through),
        )


def mine_of(identity: SinkIdentity) -> str:
    """What stands for a sink under any job name: the job may have moved to another name."""
    return hash_of(identity.job_id, identity.query, identity.sink)


def _epoch(identity: SinkIdentity, epoch: int) -> tuple[str, int, int]:
    return mine_of(identity), identity.generation, epoch
