"""The error that ends a program is the last thing on its screen, and the only one of tidegate's.

Python shows an uncaught error with its traceback, and with those of all errors behind it: a hundred lines of Spark's
and of tidegate's own code. An error of tidegate says by itself what was found, where, and what to do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import TracebackType

from tidegate.core.errors import TidegateError
from tidegate.core.redaction import SECRETS

VERBOSE = "TIDEGATE_VERBOSE"
"""Set to 1 in the environment: all that Python, Spark and Java have to say is shown."""


def is_verbose(environment: Mapping[str, str]) -> bool:
    """Whether everything is to be shown."""
    return environment.get(VERBOSE, "") not in ("", "0")


def show_errors_alone() -> None:
    """From now on an error of tidegate that ends this program is shown without tracebacks. Its exit code stays 1.

    Only in a program that Python runs from a file, and where nothing else says how errors are shown: a notebook, an
    interactive Python and `tidegate run` stay as they are.
    """
    is_program = getattr(sys.modules.get("__main__"), "__file__", None) is not None and not sys.flags.interactive
    if is_program and sys.excepthook is sys.__excepthook__ and not is_verbose(os.environ):
        sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, TidegateError):
        print(SECRETS.hide(str(error)), file=sys.stderr, flush=True)
    else:
        sys.__excepthook__(kind, error, trace)
