"""How the Python processes that Spark starts report errors to the driver: see `core.telling`."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager

from tidegate.core.errors import TidegateError
from tidegate.core.telling import ToldError, ToldStep, heard, told

WORD = secrets.token_hex(8)
"""The random word in this driver's mark. It is pickled to tasks and sources: in their process this constant differs."""


@contextmanager
def told_by_source(word: str) -> Generator[None, None, None]:
    """A context that changes an exception of a source, so that the whole exception reaches the driver.

    The new exception has no cause: Spark's JVM searches the text of a traceback with a regular expression, and a long
    text overflows the JVM's stack.
    """
    try:
        yield
    except TidegateError as error:
        raise told(error, ToldStep.SOURCE, word) from None


def heard_in(error: BaseException) -> ToldError | None:
    """The error that a task or a source has reported, if this error of Spark comes from one."""
    said = heard(str(error), WORD)
    if said is not None:
        said.__cause__ = error
    return said
