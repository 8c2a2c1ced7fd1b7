"""What an error of the server means, by its number, not by its text.

Sources: dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html, and "MariaDB Error Code Reference".
"""

from __future__ import annotations

from collections.abc import Mapping

from pymysql.err import MySQLError

from tidegate.core.redaction import SECRETS
from tidegate.core.telling import DETAIL_AT_MOST, shortened
from tidegate.sinks.rows import RowRefused

DUPLICATE = 1062
LOCK_TIMEOUT = 1205
TABLE_EXISTS = 1050

OF_A_ROW = frozenset(
    {
        *(1048, 1062, 1136, 1153, 1216, 1217, 1263, 1264, 1265, 1292, 1366, 1406, 1411, 1416, 1451, 1452, 1557, 1586),
        *(1526, 1591, 1644, 1690, 1748, 3140, 3141, 3156, 3819, 4025, 4078, 4079),
    }
)
"""The server refuses a value or a row: null, range, truncation, character set, size, key, foreign key, partition, JSON,
CHECK, and the SIGNAL of a trigger. Every try with these rows would end the same.
"""


def code_of(error: MySQLError) -> int:
    """The number of an error; 0 without one."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def told(error: MySQLError) -> str:
    """The server's own words and the number, without secrets."""
    code = code_of(error)
    text = " ".join(str(each) for each in error.args[1:] if each) if code else str(error)
    return shortened(SECRETS.hide(f"{text or type(error).__name__} (error {code})"), DETAIL_AT_MOST)


def is_of_a_row(error: MySQLError) -> bool:
    return code_of(error) in OF_A_ROW


def refused_row(error: MySQLError, row: int | None = None) -> RowRefused:
    """The refusal of a row by the server. `row`: its index, if it is known; otherwise the error tells what it can."""
    return RowRefused(
        row=row,
        expected="a row that the table's own constraints and types allow",
        found=told(error),
        next_step="change the values in select=[...], leave such rows out with where=, give the query dead_letters=, or"
        " ALTER TABLE; then start again",
    )


def remedy_of(error: MySQLError) -> str:
    """The next step after an error."""
    return _REMEDIES.get(code_of(error), _ANY)


_ANY = "correct the reason that the message names, then start again"
_CONNECT = (
    "correct what the message names: the server is down (start it), host, port, user, password, database or TLS options"
    " of the sink are others, or all connections are taken (raise max_connections); then start again: nothing is lost"
)
_RIGHTS = (
    "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP ON the database TO the sink's user, with dead letters also"
    " CREATE TEMPORARY TABLES; then start again"
)
_TABLE = "create the table again, or start again: a start creates what is missing"
_LOCKED = "another transaction holds a lock on these rows: end it (SHOW PROCESSLIST and SHOW ENGINE INNODB STATUS)"
_SPACE = "make space on the server's disk, then start again"
_REMEDIES: Mapping[int, str] = {
    **dict.fromkeys((0, 1040, 1045, 1049, 1053, 1129, 1130, 1203, 1226, 1698), _CONNECT),
    **dict.fromkeys((2002, 2003, 2005, 2006, 2013, 2014, 2026, 2055, 2061, 3159), _CONNECT),
    **dict.fromkeys((1044, 1142, 1143, 1227, 1370), _RIGHTS),
    **dict.fromkeys((1051, 1146), _TABLE),
    1054: "ALTER TABLE so that it has the rows' columns again, or change select=[...], then start again",
    **dict.fromkeys((1205, 1213, 3572), _LOCKED),
    **dict.fromkeys((1021, 1114), _SPACE),
    **dict.fromkeys((1290, 1792, 1836), "connect to the primary: this server is a replica, or is read-only"),
    1665: "set binlog_format=ROW on the server: the sink's transactions are READ COMMITTED",
}
