"""The common part of *sinks.json* and *sources.json*: descriptions that a start leaves for commands.

They hold no secret: an option that may be one is left out, and a command that needs it requests the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tidegate.core.errors import Code, TidegateError

FORMAT = 1
"""The format that this release writes. A newer format is not read."""

OTHER = "other"
"""The type of a target that only the program can open: a function, a console, an unregistered class."""

RecordT = TypeVar("RecordT", bound=msgspec.Struct)


class _RecordVersion(msgspec.Struct, frozen=True):
    format: int


def decode_descriptions(data: bytes, type_: type[RecordT], code: Code, noun: str, where: str) -> RecordT:
    """The record in the file `where`. Raises the error `code` for a newer format or a damaged file.

    `noun`: what is described, in the plural.
    """
    try:
        version = msgspec.json.decode(data, type=_RecordVersion).format
        if version <= FORMAT:
            return msgspec.json.decode(data, type=type_)
        found = f"format {version}"
    except msgspec.DecodeError as error:
        found = str(error)
    raise TidegateError(
        code,
        expected=f"descriptions of the {noun} in format {FORMAT}",
        found=found,
        where=where,
        next_step="use the release of tidegate that started the job last, or start the job with this one",
    )


def through_json(target: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as a reader of the file gets them."""
    return msgspec.json.decode(msgspec.json.encode(target))


def left_out_options(
    target: Mapping[str, Any], options: Mapping[str, str], where: str, instead: str = ""
) -> dict[str, str]:
    """The values of the options that the description leaves out. Raises OPTION_UNREADABLE if one is missing.

    `instead`: what to do without the values, behind the advice to give them.
    """
    left_out: Sequence[str] = target.get("left_out", ())
    missing = [name for name in left_out if name not in options]
    if missing:
        wanted = " ".join(f"--option {name}=env:NAME" for name in missing)
        raise TidegateError(
            Code.OPTION_UNREADABLE,
            expected=f"a value for {', '.join(missing)}: the program contains it, and secrets are not stored",
            found="none",
            where=where,
            next_step=f"give {wanted} (or =file:PATH){instead}",
        )
    return {name: options[name] for name in left_out}
