"""Flink's options that name a cluster or an entry class, in a command line of ours.

The application of YARN is handed on: it tells which job is meant. The others are taken off, with a note for each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import typer

YARN_FOUND_BY = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Spark refuses the master `yarn` where neither of these variables is set."""

_FOUND = "the option does nothing: the job is found by its name or its id"
_HERE = f"{YARN_FOUND_BY[0]} is not set, and the option does nothing: Spark computes where the program's session does"
_ON_YARN = "Spark starts an application of its own for the job, with --master yarn"
_CLASS = "a Python program has no entry class, and the option does nothing"

_APPLICATION = ("-yid", "--yarnapplicationId")
_TARGET = ("-t", "--target")
_ENTRY = ("-c", "--class")
_INSIDE = ("yarn-application", "yarn-per-job")
"""The targets whose driver runs inside YARN."""

_OF_YARN = "yarn.application.id="


@dataclass(frozen=True, slots=True)
class ClusterOption:
    """An option that was taken off: its name, its value, and its text in the command line."""

    name: str
    value: str
    text: str


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line without these options."""

    args: list[str]
    taken: list[ClusterOption]

    @property
    def application(self) -> str:
        """The application of YARN that is named; empty if none is."""
        return next((each.value for each in self.taken if each.name in _APPLICATION), "")


def of_a_job(args: Sequence[str]) -> CommandLine:
    """The command line of `savepoint`, `stop` or `cancel`, without these options. Their notes go to the standard
    error."""
    line = _taken_off(args, (*_APPLICATION, *_TARGET))
    _note((each.text, _FOUND) for each in line.taken if each.name not in _APPLICATION)
    return line


def of_a_start(args: Sequence[str], with_value: Collection[str], environment: Mapping[str, str]) -> list[str]:
    """The command line of `run`, without these options. Where Spark finds YARN, they name the master `yarn`.

    `with_value`: the options of the command that take a value. Arguments after the program belong to it, and stay.
    """
    line = _taken_off(args, (*_APPLICATION, *_TARGET, *_ENTRY), with_value)
    on_yarn = any(environment.get(name) for name in YARN_FOUND_BY)
    answer = _ON_YARN if on_yarn else _HERE
    _note((each.text, _CLASS if each.name in _ENTRY else answer) for each in line.taken)
    named = any(_is_yarn(each) for each in line.taken)
    options = {each.partition("=")[0] for each in options_before_the_program(line.args, with_value)}
    if not on_yarn or not named or "--master" in options:
        return line.args
    inside = any(each.name in _TARGET and each.value in _INSIDE for each in line.taken)
    return ["--master", "yarn", *(["--deploy-mode", "cluster"] if inside else []), *line.args]


def options_before_the_program(args: Sequence[str], with_value: Collection[str]) -> list[str]:
    """The options of the command itself. `with_value`: those that take a value."""
    return [each for each in args[: program_at(args, with_value)] if each.startswith("-")]


def program_at(args: Sequence[str], with_value: Collection[str]) -> int:
    """The index of the program; after the last argument if no program is named."""
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] != "--":
        at += 2 if args[at] in with_value else 1
    return min(at, len(args))


def _is_yarn(taken: ClusterOption) -> bool:
    return taken.name in _APPLICATION or (taken.name in _TARGET and taken.value.startswith("yarn"))


def _taken_off(args: Sequence[str], options: Sequence[str], with_value: Collection[str] = ()) -> CommandLine:
    """Remove the options, up to a bare `--`; with `with_value` up to the first positional argument."""
    line, rest = CommandLine([], []), list(args)
    while rest:
        each = rest.pop(0)
        if each == "--" or (with_value and not each.startswith("-")):
            return CommandLine([*line.args, each, *rest], line.taken)
        name, is_joined, value = each.partition("=")
        if name in options:
            value = value if is_joined else rest.pop(0) if rest else ""
            line.taken.append(ClusterOption(name, value, f"{name} {value}"))
        elif each[:2] in options and len(each) > 2 and each[1] != "-":
            line.taken.append(ClusterOption(each[:2], each[2:], each))
        elif not with_value and (each.startswith(f"-D{_OF_YARN}") or (each == "-D" and _is_of_yarn(rest))):
            text = rest.pop(0) if each == "-D" else each[2:]
            line.taken.append(ClusterOption(_APPLICATION[0], text.removeprefix(_OF_YARN), f"-D {text}"))
        else:
            line.args.append(each)
            if each in with_value and rest:
                line.args.append(rest.pop(0))
    return line


def _is_of_yarn(rest: Sequence[str]) -> bool:
    return bool(rest) and rest[0].startswith(_OF_YARN)


def _note(notes: Iterator[tuple[str, str]]) -> None:
    for text, answer in notes:
        typer.echo(f"note: {text}: {answer}", err=True)
