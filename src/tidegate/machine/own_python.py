"""Processes of this Python that run a module of tidegate."""

from __future__ import annotations

import sys


def module_command(module: str, *arguments: str) -> list[str]:
    """`python -m module`, which does not look for modules in the working folder: a program there may have the name of
    one of Python's own modules, such as `numbers.py`. Python 3.10 cannot do without the working folder.
    """
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, "-m", module, *arguments]
