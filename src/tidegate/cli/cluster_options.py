"""Flink's options that name a cluster or an entry class: removed from a command line, with a note for each.

There is no cluster yet. A job is found by its name or its id, and runs on this machine. So a Flink command line that
also names the cluster works here, with a note for each option without effect.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import typer

_FOUND = "there is no cluster yet, and the option does nothing: the job is found by its name or its id"
_HERE = "there is no cluster yet, and the option does nothing: Spark computes where the program's session does"
_CLASS = "a Python program has no entry class, and the option does nothing"

OF_A_JOB: Mapping[str, str] = dict.fromkeys(("-yid", "--yarnapplicationId", "-t", "--target"), _FOUND)
"""The options of `savepoint`, `stop` and `cancel`, each with one value, and their counterpart here."""

OF_A_START: Mapping[str, str] = {
    **dict.fromkeys(("-yid", "--yarnapplicationId", "-t", "--target"), _HERE),
    **dict.fromkeys(("-c", "--class"), _CLASS),
}
"""The same for `run` and `run-application`."""

_OF_YARN = "yarn.application.id="


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line without these options, and a note for each of them."""

    args: list[str]
    notes: list[str]


def taken_off(args: Sequence[str], options: Mapping[str, str], *, with_value: Collection[str] = ()) -> CommandLine:
    """Remove the options, up to a bare `--`. If `with_value` names the options of the command that take a value,
    arguments after the first positional one belong to the program and stay."""
    line, rest = CommandLine([], []), list(args)
    while rest:
        each = rest.pop(0)
        if each == "--" or (with_value and not each.startswith("-")):
            return CommandLine([*line.args, each, *rest], line.notes)
        name, is_joined, value = each.partition("=")
        if name in options:
            value = value if is_joined else rest.pop(0) if rest else ""
            line.notes.append(f"{name} {value}: {options[name]}")
        elif each[:2] in options and len(each) > 2 and each[1] != "-":
            line.notes.append(f"{each}: {options[each[:2]]}")
        elif not with_value and (each.startswith(f"-D{_OF_YARN}") or (each == "-D" and _is_of_yarn(rest))):
            line.notes.append(f"-D {rest.pop(0) if each == '-D' else each[2:]}: {_FOUND}")
        else:
            line.args.append(each)
            if each in with_value and rest:
                line.args.append(rest.pop(0))
    return line


def _is_of_yarn(rest: Sequence[str]) -> bool:
    return bool(rest) and rest[0].startswith(_OF_YARN)


def answered(line: CommandLine) -> list[str]:
    """The remaining arguments. The notes on the others go to the standard error."""
    for note in line.notes:
        typer.echo(f"note: {note}", err=True)
    return line.args
