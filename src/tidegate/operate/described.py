"""The common part of *sinks.json* and *sources.json*: descriptions that a start leaves for commands.

They hold no secret: an option that may be one is left out, and a command that needs it requests the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import ObjectFormat, Unreadable, parsed

FORMAT = 1
"""The format that this release writes. A newer format is not read."""

OTHER = "other"
"""The type of a target that only the program can open: a function, a console, an unregistered class."""

RecordT = TypeVar("RecordT", bound=msgspec.Struct)


def descriptions_of(noun: str, holds: type[RecordT]) -> ObjectFormat[RecordT]:
    """The format of a file with descriptions. `noun`: what is described, in the plural."""
    return ObjectFormat(holds, f"descriptions of the {noun} in format {FORMAT}", FORMAT)


def decode_descriptions(data: bytes, form: ObjectFormat[RecordT], code: Code, where: str) -> RecordT:
    """The record in the file `where`. Raises the error `code` for a newer format or a damaged file."""
    try:
        return form.decode(data)
    except Unreadable as flaw:
        raise TidegateError(
            code,
            expected=form.noun,
            found=flaw.found,
            where=where,
            next_step="use the release of tidegate that started the job last, or start the job with this one",
        ) from None


def through_json(target: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as a reader of the file gets them."""
    return parsed(msgspec.json.encode(target), dict[str, Any])


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
