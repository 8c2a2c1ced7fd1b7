"""What an error of the client or the server means."""

from __future__ import annotations

from redis import exceptions

from tidegate.core.redaction import SECRETS
from tidegate.core.telling import DETAIL_AT_MOST, shortened

ERRORS = (exceptions.RedisError, exceptions.RedisClusterException, OSError)
"""What the client raises when the server cannot be used. OSError: a file of a certificate that is missing."""


def told(error: Exception) -> str:
    """The server's own words, without secrets."""
    return shortened(SECRETS.hide(str(error).strip() or type(error).__name__), DETAIL_AT_MOST)


def remedy_of(error: Exception) -> str:
    """The next step after an error."""
    by_text = (remedy for text, remedy in _BY_TEXT.items() if text in str(error))
    return next(by_text, None) or next((remedy for kind, remedy in _REMEDIES if isinstance(error, kind)), _ANY)


_RIGHTS = (
    "ACL SETUSER: the sink's user needs the keys of its prefix (~PREFIX:*, or ~{PREFIX.*), and +@read +@write"
    " +@scripting +@connection +info +config|get +cluster; then start again"
)
_BY_TEXT = {
    "The user executing the script": _RIGHTS,
    "ACL failure in script": _RIGHTS,  # the same, in Valkey's words
    "max number of clients reached": "raise maxclients on the server, or let epochs have fewer tasks: each needs a"
    " connection; then start again: nothing is lost",
    "Cluster mode is not enabled": "leave buckets= out: this server is no cluster; then start again",
}
"""Errors without a class or a code of their own."""
_ANY = "correct the reason that the message names, then start again"
_REMEDIES: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.AuthenticationError, "correct `username` and `password` in options={...}, then start again"),
    (exceptions.NoPermissionError, _RIGHTS),
    (
        exceptions.OutOfMemoryError,
        "raise maxmemory, or remove keys; then start again: nothing of the epoch is lost",
    ),
    (exceptions.ReadOnlyError, "give the primary as host: this server is a replica; then start again"),
    (
        exceptions.TimeoutError,
        "look whether the server runs, and whether it expects TLS at this port (TLS options: rediss://, ssl); or raise"
        " socket_timeout and socket_connect_timeout; then start again: nothing is lost",
    ),
    (
        exceptions.ConnectionError,
        "correct what the message names: the server is down (start it), or host, port or TLS options of the sink are"
        " others; then start again: nothing is lost",
    ),
)
