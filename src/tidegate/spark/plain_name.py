"""A folder under a name that Spark's reader of state accepts.

The reader makes a URI of its path, and uses the text of the URI as a path: for `two words` it reads `two%20words`,
which does not exist. So a link has a name that is equal to its URI.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")
_PLAIN_URI = re.compile(r"[A-Za-z0-9._/:-]+")


def is_plain(folder: Path) -> bool:
    """True if the path is equal to its URI."""
    return _PLAIN.fullmatch(str(folder)) is not None


@contextmanager
def plainly_named(folder: Path) -> Generator[Path, None, None]:
    """A context with a path to the folder whose name has only plain characters: the folder itself, or a temporary link
    to it.
    """
    if is_plain(folder):
        yield folder
        return
    with TemporaryDirectory(prefix="tidegate-state-") as aside:
        link = Path(aside) / "state"
        link.symlink_to(folder, target_is_directory=True)
        yield link


@contextmanager
def readable_at(folder: Path, place: str) -> Generator[str, None, None]:
    """A context with a URI under which Spark's reader finds the files of a folder of this machine.

    `place`: the URI of the same files on a storage that every machine reaches; empty if they are only here. It is used
    if it is plain: on a cluster the tasks that read are elsewhere. A path without a scheme would be one of
    `fs.defaultFS`.
    """
    if _PLAIN_URI.fullmatch(place):
        yield place
        return
    with plainly_named(folder) as here:
        yield f"file:{here}"
