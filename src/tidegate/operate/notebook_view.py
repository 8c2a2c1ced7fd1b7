"""The display of a job in a notebook that lives on: a thread replaces it while the job runs and other cells run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import Any

from tidegate.core.errors import TidegateError
from tidegate.operate.refusals import request_refused

EVERY_SECONDS = 2.0


def in_notebook() -> bool:
    """True if this process is the kernel of a notebook. A program that only imports one is none."""
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None


def show(name: str, html: Callable[[], str], ended: Callable[[], bool], every_seconds: float = EVERY_SECONDS) -> None:
    """Show `html()` in the output of the cell that runs, and replace it until `ended()`; then once more. Returns at
    once. A look that fails is shown in the place of the job, and the next one is tried.

    `every_seconds`: between two looks. On HDFS and S3 each look costs requests. Raises REQUEST_REFUSED outside a
    notebook.
    """
    if not in_notebook():
        raise request_refused(
            "a notebook, whose cell shows the job",
            "a Python without one",
            f"show() of job {name}",
            f"run `tidegate info {name}`, or `tidegate ui` for a page",
        )
    output: Any = import_module("IPython.display")
    shown = output.display(output.HTML(_looked(html)), display_id=True)
    follow = _Follow(shown, output.HTML, html, ended, every_seconds)
    threading.Thread(target=follow.run, name=f"tidegate-show-{name}", daemon=True).start()


class _Follow:
    def __init__(
        self,
        shown: Any,
        as_html: Callable[[str], Any],
        html: Callable[[], str],
        ended: Callable[[], bool],
        every: float,
    ) -> None:
        self._shown = shown
        self._as_html = as_html
        self._html = html
        self._ended = ended
        self._every = every
        self._pause = threading.Event()

    def run(self) -> None:
        before, last = "", False
        while not last:
            self._pause.wait(self._every)
            last = self._ended()
            now = _looked(self._html)
            if now != before:
                self._shown.update(self._as_html(now))
                before = now


def _looked(html: Callable[[], str]) -> str:
    try:
        return html()
    except TidegateError as error:
        return f"<pre>{escape(str(error))}</pre>"
