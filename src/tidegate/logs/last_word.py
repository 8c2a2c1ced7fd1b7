"""Shows the error that ends a program as the last output, and as the only error of tidegate.

Python shows an uncaught error with its traceback and with those of all errors that caused it: a hundred lines of
Spark's and tidegate's code. The text of a tidegate error already contains the finding, the place and the next step.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import TracebackType

from tidegate.core.errors import TidegateError
from tidegate.core.redaction import SECRETS

VERBOSE = "TIDEGATE_VERBOSE"
"""Set to 1 in the environment: the full output of Python, Spark and Java is shown."""


def is_verbose(environment: Mapping[str, str]) -> bool:
    """True if the full output is to be shown."""
    return environment.get(VERBOSE, "") not in ("", "0")


def show_errors_alone() -> None:
    """From now on, show a tidegate error that ends this program without tracebacks. Its exit code stays 1.

    This applies only to a program that Python runs from a file and that sets no own exception hook. A notebook, an
    interactive Python and `tidegate run` stay unchanged.
    """
    is_program = getattr(sys.modules.get("__main__"), "__file__", None) is not None and not sys.flags.interactive
    if is_program and sys.excepthook is sys.__excepthook__ and not is_verbose(os.environ):
        sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, TidegateError):
        print(SECRETS.hide(str(error)), file=sys.stderr, flush=True)
    else:
        sys.__excepthook__(kind, error, trace)
