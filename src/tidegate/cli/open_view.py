"""Which view a supervisor's terminal gets."""

from __future__ import annotations

import os
import sys

from tidegate.cli.view import View

OUTPUT, ERRORS = 1, 2


def open_view() -> View:
    """A live view where the standard error is a terminal that can move its cursor, and ours to write to."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return View()
    from tidegate.cli.live import LiveView

    return LiveView(os.dup(ERRORS), (OUTPUT, ERRORS) if sys.stdout.isatty() else (ERRORS,))
