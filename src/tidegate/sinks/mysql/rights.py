"""The rights of the sink's user, as far as the server tells them: those that are granted to the user itself.

A user with a role may have more than that, so nothing is said about one: what is missing is then found by the first
statement that needs it.
"""

from __future__ import annotations

from tidegate.sinks.mysql.server import MySQLSession, run

NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP")
"""On the database: the stages in it come and go."""


def missing_rights(connection: MySQLSession) -> list[str]:
    """Those of NEEDED that the user lacks on the database of the connection."""
    role = run(connection, "SELECT CURRENT_ROLE()")[0][0]
    if role not in (None, "", "NONE"):
        return []
    held = {str(right) for (right,) in run(connection, _HELD)}
    return [right for right in NEEDED if right not in held]


def user_of(connection: MySQLSession) -> str:
    """The user in the server's own form, for a GRANT: 'name'@'host'."""
    name, _, host = str(run(connection, "SELECT CURRENT_USER()")[0][0]).rpartition("@")
    return f"'{name}'@'{host}'"


_GRANTEE = (
    "CONCAT(QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), '@', QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)))"
)
_HELD = f"""
SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = {_GRANTEE}
UNION SELECT PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES
WHERE GRANTEE = {_GRANTEE} AND DATABASE() LIKE TABLE_SCHEMA
"""
"""A grant on a database is a pattern: `shop\\_%`."""
