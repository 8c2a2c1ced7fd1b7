"""A restore between processes: from `tidegate run -s` to the program, and the report of a program that is only
checked.
"""

from __future__ import annotations

import os
from typing import TypeVar

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.storages.schemes import Folder

RESTORE_VARIABLE = "TIDEGATE_RESTORE"
"""Environment variable of a program: the restore of its start, as JSON of `core.restoring.Restore`."""

FRESH_VARIABLE = "TIDEGATE_FRESH"
"""Environment variable of a program: its start opens an empty generation, as JSON of `savepoints.fresh.Fresh`."""

ALLOWED_VARIABLE = "TIDEGATE_ALLOW_CHANGED_OPERATORS"
"""Environment variable of a program: the operators that may differ, as JSON of `core.fingerprints.Allowed`."""

SAYS = "tidegate: what a restore would be: "
"""Written by a program that is only checked to its standard error, before the JSON of `Said`."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict (`core.restoring.Verdict`), the changes, and by query the epoch after which it would resume."""

    verdict: str
    changes: tuple[str, ...] = ()
    epochs: dict[str, int] = {}


_Handed = TypeVar("_Handed")


def resolved_folder(text: str) -> str:
    """The savepoint that a user names, by its whole path behind all links, or by its URI."""
    folder = Folder.of(text)
    return os.path.realpath(folder.local()) if folder.is_local else str(folder)


def handed_on(variable: str, kind: type[_Handed], command: str) -> _Handed | None:
    """The value that `command` has put into the environment of this program; None if there is none.

    Raises SETTING_VALUE for an invalid value.
    """
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        return parsed(text, kind)
    except Unreadable as error:
        raise TidegateError(
            Code.SETTING_VALUE,
            expected=f"what `{command}` hands on",
            found=str(error),
            where=f"environment: {variable}",
            next_step=f"leave the variable to `{command}`",
        ) from None
