"""Gives one file a second name, if the disk supports it. The caller decides about the alternative."""

from __future__ import annotations

import os
from pathlib import Path


def linked(source: Path, target: Path) -> bool:
    """True if the link was made: same disk, hard links supported, and this user may create them. Raises
    FileNotFoundError if the file does not exist, because an alternative would not find it either.
    """
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True
