"""Checks whether Spark can open a file with a given name.

On a disk Java decodes names with one encoding; Python keeps their bytes. HDFS and S3 have names of Unicode, whatever
the locale is.
"""

from __future__ import annotations

import codecs


def why_unreadable(name: str, encoding: str) -> str | None:
    """The reason why Spark cannot open a file on a disk with this path below the root; None if it can.

    `encoding`: the encoding of file names in the JVM, as Java names it. A colon in a name is a problem too: Hadoop's
    local file system looks for a file `.<name>.crc` and takes the part before the colon for the scheme of a URI.
    Spark's own file source fails on such a file as well (FAILED_READ_FILE).
    """
    if ":" in name.rpartition("/")[2]:
        return "has a colon, which Hadoop cannot open"
    if name.isascii():
        return None
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "is not UTF-8"
    if _is_utf_8(encoding):
        return None
    return f"is not ASCII, and Java names files in {encoding} here (start with LC_ALL=C.UTF-8)"


def why_folded(name: str) -> str | None:
    """The reason why Spark cannot open an object of S3 with this key below the root; None if it can.

    Hadoop takes `a//b` for `a/b`, which is another object.
    """
    return "has an empty name between two slashes, which Hadoop leaves out" if "" in name.split("/") else None


def shown(name: str) -> str:
    """The name for a message: bytes that are not valid text as `\\xe9`, control characters escaped."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def _is_utf_8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False
