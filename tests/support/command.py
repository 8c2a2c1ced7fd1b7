"""The command line as a terminal has it, in this process: with its exit codes and what it says of errors."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from tidegate.cli import main


@dataclass(frozen=True, slots=True)
class Said:
    """How a command has ended, and what it printed."""

    code: int
    stdout: str
    stderr: str


def tidegate(*arguments: str) -> Said:
    """Run a command."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["tidegate", *arguments]):
        try:
            main.app()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Said(code, out.getvalue(), err.getvalue())
