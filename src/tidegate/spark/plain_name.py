"""A folder under a name that Spark's reader of state takes.

The reader makes a URI of the path that it is given, and reads that as a path: of `two words` it looks into
`two%20words`, where nothing is. A link has a name of which a URI is the same.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")


def is_plain(folder: Path) -> bool:
    """Whether the path is the same as a URI."""
    return _PLAIN.fullmatch(str(folder)) is not None


@contextmanager
def plainly_named(folder: Path) -> Generator[Path, None, None]:
    """The same folder, by its own name where that is plain, else by a link that is there as long as the body runs."""
    if is_plain(folder):
        yield folder
        return
    with TemporaryDirectory(prefix="tidegate-state-") as aside:
        link = Path(aside) / "state"
        link.symlink_to(folder, target_is_directory=True)
        yield link
