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
