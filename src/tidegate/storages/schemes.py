"""Which kind of storage a path or URI names: a closed set. A new one is a member here and an entry in each table that
opens something by it (`opening.py`, `leases.py`, `journals.py`, `checkpoints.py` beside this file)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.core.errors import Code, TidegateError


class Scheme(Enum):
    """The schemes of URIs that name a storage."""

    FILE = "file"
    """A local disk; a path without a scheme, too."""


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """A scheme, and the place in it: for `file` an absolute path."""

    scheme: Scheme
    path: str


def place_of(where: str | Path) -> StoragePlace:
    """The place that a path or a URI names.

    Raises SETTING_VALUE for a scheme without a storage, and for a `file:` URI with the name of another machine.
    """
    text = str(where)
    found = _SCHEME.match(text)
    if isinstance(where, Path) or found is None:
        return StoragePlace(Scheme.FILE, str(Path(text).absolute()))
    scheme = found[1] or found[2]
    if scheme.lower() != Scheme.FILE.value:
        raise _refused(f"the scheme {scheme}", text)
    uri = urlsplit(text)
    if uri.netloc not in ("", "localhost"):
        raise _refused(f"the machine {uri.netloc}", text)
    return StoragePlace(Scheme.FILE, str(Path(unquote(uri.path)).absolute()))


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(?i:(file)):(?=/)")


def _refused(found: str, where: str) -> TidegateError:
    known = ", ".join(f"`{scheme.value}:`" for scheme in Scheme)
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"a path, or a URI of one of these storages ({known})",
        found=found,
        where=where,
        next_step="give a folder on a local disk, as a path or as file:///path",
    )
