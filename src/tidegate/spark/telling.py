"""How the Python processes that Spark starts tell the driver of their errors: see `core.telling`."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager

from tidegate.core.errors import TidegateError
from tidegate.core.telling import ToldError, ToldStep, heard, told

WORD = secrets.token_hex(8)
"""The word of this driver's mark. Tasks and sources get it with what is pickled to them: in their process this
constant is another one."""


@contextmanager
def told_by_source(word: str) -> Generator[None, None, None]:
    """What a source raises inside reaches the driver whole. Without a cause: Spark's JVM looks through the text of a
    traceback with a regular expression, and a long one overflows its stack."""
    try:
        yield
    except TidegateError as error:
        raise told(error, ToldStep.SOURCE, word) from None


def heard_in(error: BaseException) -> ToldError | None:
    """What a task or a source has told, where this error of Spark's comes from one."""
    said = heard(str(error), WORD)
    if said is not None:
        said.__cause__ = error
    return said
