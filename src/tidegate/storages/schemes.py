"""Which kind of storage a path or URI names: a closed set. A new one is a member here and an entry in each table that
opens something by it (`opening.py`, `leases.py`, `journals.py`, `checkpoints.py`, `targets.py`, `inputs.py`, beside
this file); its spellings are entries in the table of parsers below."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.hdfs.configuration import default_authority


class Scheme(Enum):
    """The schemes of URIs that name a storage."""

    FILE = "file"
    """A local disk; a path without a scheme, too."""

    S3 = "s3"
    """A bucket of S3, or of a store that speaks its protocol; `s3a:` too."""

    HDFS = "hdfs"
    """HDFS. Without an authority (`hdfs:///path`) the one of `fs.defaultFS` in HADOOP_CONF_DIR."""

    VIEWFS = "viewfs"
    """HDFS by a mount table of its client, which is in HADOOP_CONF_DIR."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a storage, as a value: `folder / "queries" / uid` is a folder below it. Nothing is opened.

    `path` is absolute, and without escapes. `authority` is the part of the URI between `//` and the path: the server or
    the bucket; empty for a local disk.
    """

    scheme: Scheme
    authority: str
    path: str

    @classmethod
    def of(cls, where: Where) -> Folder:
        """The folder that a path or a URI names. A relative path counts from the working folder of this process.

        Raises SETTING_VALUE for a scheme without a storage, for a `file:` URI with the name of another machine, and for
        an `s3:` URI without a bucket, or with credentials.
        """
        if isinstance(where, Folder):
            return where
        found = None if isinstance(where, Path) else _SCHEME.match(where)
        if found is None:
            return cls(Scheme.FILE, "", str(Path(where).absolute()))
        scheme = found[1] or found[2]
        parse = _PARSERS.get(scheme.lower())
        if parse is None:
            raise _refused(f"the scheme {scheme}", str(where))
        return parse(str(where))

    def __truediv__(self, name: str) -> Folder:
        """The folder of this name below this one. `name` may have several parts, and is never absolute."""
        return replace(self, path=posixpath.join(self.path, name))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path)

    @property
    def parent(self) -> Folder:
        """The folder above this one."""
        return replace(self, path=posixpath.dirname(self.path))

    @property
    def is_local(self) -> bool:
        """True for a folder on a local disk."""
        return self.scheme is Scheme.FILE

    def local(self) -> Path:
        """The path of a folder on a local disk.

        Raises STORAGE_LOCAL_ONLY for other storages: for work that is built for a local disk only.
        """
        if not self.is_local:
            raise TidegateError(
                Code.STORAGE_LOCAL_ONLY,
                expected="a folder on a local disk",
                found=f"a folder of the storage `{self.scheme.value}:`",
                where=str(self),
            )
        return Path(self.path)

    def for_spark(self) -> str:
        """The same folder as Spark names it: the path on a local disk, otherwise a URI with the scheme that Hadoop's
        file systems know."""
        if self.is_local:
            return self.path
        return f"{_FOR_SPARK.get(self.scheme, self.scheme.value)}://{self.authority}{self.path}"

    def __str__(self) -> str:
        """For messages and for `of`: the path on a local disk, otherwise the URI."""
        return self.path if self.is_local else f"{self.scheme.value}://{self.authority}{self.path}"


Where: TypeAlias = "str | Path | Folder"
"""A place as a user names it (a path, or a URI), or as a `Folder`."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(?i:(file|hdfs|viewfs)):(?=/)")


def _of_a_file(uri: str) -> Folder:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise _refused(f"the machine {parts.netloc}", uri)
    return Folder(Scheme.FILE, "", str(Path(unquote(parts.path)).absolute()))


def _of_a_bucket(uri: str) -> Folder:
    """Keys are plain text: a URI of S3 has no escapes, no query and no fragment."""
    scheme, _, rest = uri.partition("://")
    bucket, _, path = rest.partition("/")
    if "@" in bucket:
        raise _refused("credentials", f"{scheme}://...@{bucket.rpartition('@')[2]}/{path}")
    if not bucket:
        raise _refused("no name of a bucket", uri)
    return Folder(Scheme.S3, bucket, posixpath.normpath(f"/{path.lstrip('/')}"))


def _of_hadoop(uri: str) -> Folder:
    """As Hadoop reads it: without escapes, so that every character stands for itself."""
    name, _, rest = uri.partition(":")
    scheme = Scheme(name.lower())
    authority, path = rest.removeprefix("//").partition("/")[::2] if rest.startswith("//") else ("", rest)
    path = posixpath.normpath(f"/{path}")
    return Folder(scheme, authority or default_authority(scheme.value, uri), f"/{path.lstrip('/')}")


_PARSERS: Mapping[str, Callable[[str], Folder]] = {
    Scheme.FILE.value: _of_a_file,
    Scheme.S3.value: _of_a_bucket,
    "s3a": _of_a_bucket,
    Scheme.HDFS.value: _of_hadoop,
    Scheme.VIEWFS.value: _of_hadoop,
}
"""The folder that a URI names, by its scheme in lower case. Several spellings may name one storage."""

_FOR_SPARK: Mapping[Scheme, str] = {Scheme.S3: "s3a"}
"""The scheme by which Hadoop's file systems know a storage, where it is another than tidegate's."""


def _refused(found: str, where: str) -> TidegateError:
    known = ", ".join(f"`{scheme.value}:`" for scheme in Scheme)
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"a path, or a URI of one of these storages ({known})",
        found=found,
        where=where,
        next_step="give a folder of a local disk (/path), of HDFS (hdfs://host:port/path) or of S3 (s3://bucket/path)",
    )
