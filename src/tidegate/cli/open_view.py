"""Selects the view of a supervisor's terminal."""

from __future__ import annotations

import os
import sys

from tidegate.cli.view import View

OUTPUT, ERRORS = 1, 2


def open_view() -> View:
    """A live view if the standard error is a terminal with cursor control that this process may write to."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return View()
    from tidegate.cli.live import LiveView

    return LiveView(os.dup(ERRORS), (OUTPUT, ERRORS) if sys.stdout.isatty() else (ERRORS,))
