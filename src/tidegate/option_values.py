"""Values of options that are kept elsewhere: `env:NAME` in the environment, `file:PATH` in a file.

They are read by the process that connects, so the secret is in no other process and in no file of the job. What was
read is hidden in every text from then on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS, is_secret


def resolved(name: str, value: str) -> str:
    """The value of option `name`, read from its place if it is kept elsewhere.

    Raises OPTION_UNREADABLE if the environment variable or the file does not exist.
    """
    if not is_kept_elsewhere(value):
        return value
    kind, _, rest = value.partition(":")
    read = _PLACES[kind](name, rest)
    SECRETS.add(read)
    return read


def is_kept_elsewhere(value: str) -> bool:
    """True if the value only tells where the real one is."""
    kind, colon, _ = value.partition(":")
    return bool(colon) and kind in _PLACES


def hide_secrets_of(options: Mapping[str, str]) -> None:
    """Hide the secrets that stand in the program itself: an error may quote them before any client was opened."""
    for name, value in options.items():
        if is_secret(name) and not is_kept_elsewhere(value):
            SECRETS.add(value)


def _from_environment(name: str, variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise _unreadable(name, f"environment variable {variable}", "it is not set")
    return value


def _from_file(name: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise _unreadable(name, f"file {path}", error.strerror or type(error).__name__) from None


_PLACES: Mapping[str, Callable[[str, str], str]] = {"env": _from_environment, "file": _from_file}


def _unreadable(name: str, place: str, found: str) -> TidegateError:
    return TidegateError(
        Code.OPTION_UNREADABLE,
        expected=f"the value of {name} in {place}",
        found=found,
        where=f"options={{{name!r}: ...}}, read by process {os.getpid()}",
        next_step="set it for the driver and for every worker (it is read where a client is opened), then start again",
    )
