"""One file under a second name, where the disk can; what is done where it cannot is for the caller to say."""

from __future__ import annotations

import os
from pathlib import Path


def linked(source: Path, target: Path) -> bool:
    """Whether the disk can: both stand on one, it knows hard links, and this user may. Raises FileNotFoundError where
    there is no such file: nothing else brings that one either."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True
