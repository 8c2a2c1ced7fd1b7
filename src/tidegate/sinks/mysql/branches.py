"""The prepared XA branches of a server, and the statements that end them.

Sources: dev.mysql.com/doc/refman/8.4/en/xa-statements.html and xa-states.html; the errors are those of X/Open, by the
server's numbers.
"""

from __future__ import annotations

import re
import time
from typing import Any

from pymysql.err import MySQLError, OperationalError

from tidegate.sinks.mysql.server import MySQLSession, run
from tidegate.sinks.mysql.table import is_mariadb
from tidegate.sinks.mysql.words import code_of
from tidegate.sinks.mysql.xids import FORMAT_ID, Xid

UNKNOWN_XID = 1397
"""XAER_NOTA: no such branch, or its session still holds it. It proves nothing."""
NOT_ALLOWED_TO_LIST = frozenset({1227, 1401})
"""MySQL answers XA RECOVER so to a user without XA_RECOVER_ADMIN."""
_ENDED = frozenset({UNKNOWN_XID, 1402, 1613, 1614})
"""The branch is not there, or the server has rolled it back."""
_PATIENCE_SECONDS, _LOOK_SECONDS = 5.0, 0.01
_HEX = re.compile(r"0[xX]([0-9a-fA-F]*)")


def prepared_here(connection: MySQLSession) -> list[Xid]:
    """The prepared branches of the server that are of this library, of all users and databases."""
    # MySQL gives the identifier as a text, which it may not be; in this form it is a number.
    rows = run(connection, "XA RECOVER" if is_mariadb(connection) else "XA RECOVER CONVERT XID")
    found = [_parsed(*row) for row in rows]
    return [each for each in found if each is not None]


def commit_branch(connection: MySQLSession, xid: Xid) -> bool:
    """Commit a prepared branch. False if the server does not know it, which proves nothing.

    Raises OperationalError if another session holds it, and does not let it go.
    """
    return _ended(connection, f"XA COMMIT {xid.in_sql}", xid)


def roll_back(connection: MySQLSession, xid: Xid) -> None:
    """Roll back a prepared branch. Nothing to do if there is none. Raises OperationalError as `commit_branch` does."""
    _ended(connection, f"XA ROLLBACK {xid.in_sql}", xid)


def _ended(connection: MySQLSession, statement: str, xid: Xid) -> bool:
    """A branch that is listed and not known is held by the session that has prepared it, until the server has seen the
    end of that session; or another session is ending it.
    """
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            run(connection, statement)
        except MySQLError as error:
            if code_of(error) not in _ENDED:
                raise
            if xid not in prepared_here(connection):
                return False
            if time.monotonic() > end:
                raise OperationalError(UNKNOWN_XID, f"another session holds the branch {xid}") from None
            time.sleep(_LOOK_SECONDS)
        else:
            return True


def _parsed(format_id: int, gtrid_bytes: int, bqual_bytes: int, data: Any) -> Xid | None:
    if format_id != FORMAT_ID:
        return None
    content = data if isinstance(data, bytes) else str(data).encode()
    written_as_number = _HEX.fullmatch(content.decode("latin-1"))
    if written_as_number and len(content) != gtrid_bytes + bqual_bytes:
        content = bytes.fromhex(written_as_number[1])
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        return None
    return Xid.parsed(text[:gtrid_bytes], text[gtrid_bytes : gtrid_bytes + bqual_bytes])
