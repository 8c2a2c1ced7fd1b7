"""Everything below a folder, or an error: a folder that cannot be listed is never taken for an empty one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn


def files_below(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """`root` and every folder below it, with the names of the files directly in it; links are not followed.

    Raises what the disk says of a folder that it does not list: `os.walk` by itself leaves such a folder out.
    """
    for folder, _, names in os.walk(root, onerror=_fail):
        yield Path(folder), names


def _fail(error: OSError) -> NoReturn:
    raise error
