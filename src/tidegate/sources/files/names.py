"""Which names of files Spark's readers can open. Java knows a name as text in one encoding; Python keeps its bytes."""

from __future__ import annotations

import codecs


def why_unreadable(name: str, encoding: str) -> str | None:
    """Why no reader of Spark's can open a file of this path below the root; None where one can. `encoding`: that of
    file names in the JVM, as Java calls it.

    Hadoop's own disk file system looks for `.<name>.crc` beside each file, and takes what stands before a colon in it
    for the scheme of a URI: Spark's own source fails there, too (FAILED_READ_FILE).
    """
    if ":" in name.rpartition("/")[2]:
        return "has a colon, which Hadoop cannot open"
    if name.isascii():
        return None
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "is not UTF-8"
    return None if _is_utf_8(encoding) else f"is not ASCII, and Java names files in {encoding} here"


def shown(name: str) -> str:
    """The name for a message: bytes that are no text as `\\xe9`, control characters escaped."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _is_utf_8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False
