"""Lists everything below a folder, or raises: a folder that cannot be listed is never treated as empty."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn


def files_below(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """`root` and every folder below it, with the names of the files directly in it; links are not followed.

    Raises the error of a folder that cannot be listed; `os.walk` alone would leave it out.
    """
    for folder, _, names in os.walk(root, onerror=_fail):
        yield Path(folder), names


def _fail(error: OSError) -> NoReturn:
    raise error
