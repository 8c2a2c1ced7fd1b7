"""The next step after an error of SQLite, by its error code (sqlite.org/rescode.html), not by its text."""

from __future__ import annotations

import sqlite3
from pathlib import Path

COLUMNS_AT_MOST = 2_000
"""SQLite's default limit on the columns of a table (SQLITE_MAX_COLUMN)."""


def remedy_of(error: sqlite3.Error, path: Path) -> str:
    """The next step after an error of the database at `path`."""
    code = getattr(error, "sqlite_errorcode", None)  # Python 3.11 and newer
    return _REMEDIES.get(_ANY if code is None else code & 0xFF, _REMEDIES[_ANY]).format(path=path)


_ANY = 0
_BUSY, _LOCKED, _PERM, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 3, 8, 10, 11, 13, 14, 26
_HELD = (
    "another program holds a lock on the database: let it end its transaction, or close it (`fuser {path}` names the"
    " process), then start again"
)
_RIGHTS = "give this user the right to read and write {path} and its folder, then start again"
_REMEDIES = {
    _ANY: "open {path} with `sqlite3`, correct there the reason that the message names, then start again",
    _BUSY: _HELD,
    _LOCKED: _HELD,
    _PERM: _RIGHTS,
    _READONLY: _RIGHTS,
    _CANTOPEN: _RIGHTS,
    _IOERR: "see the kernel's log for errors of the disk with {path}, then start again",
    _FULL: "make space on the disk of {path}, then start again",
    _CORRUPT: "`sqlite3 {path} 'PRAGMA integrity_check'` shows the damage: restore the file from a copy",
    _NOTADB: "give the sink another path: {path} is a file of another kind",
}
