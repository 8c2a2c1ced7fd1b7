"""The reference of all commands (docs/commands.md), read from the command line itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer


def reference() -> str:
    from tidegate.cli.commands import COMMANDS
    from tidegate.cli.main import with_commands

    group: Any = typer.main.get_command(with_commands(COMMANDS))
    return "\n\n".join(_sections(group, "tidegate"))


def commands() -> set[str]:
    """Every command that is shown, as it is typed: `tidegate savepoint take`."""
    return set(re.findall(r"^### `(.+)`$", reference(), re.MULTILINE))


def _sections(group: Any, typed: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if not command.hidden:
            yield _section(command, f"{typed} {name}")
            if hasattr(command, "commands"):
                yield from _sections(command, f"{typed} {name}")


def _section(command: Any, typed: str) -> str:
    parts = [f"### `{typed}`", *_paragraphs(command.help or "")]
    rows = [_row(each) for each in command.params if not each.hidden and each.name != "help"]
    if rows:
        parts.append("\n".join(["| | takes | |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _paragraphs(text: str) -> Iterator[str]:
    """The help as Markdown: its examples are lines behind `* `."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        lines = paragraph.strip().splitlines()
        if all(line.lstrip().startswith("* ") for line in lines):
            yield "\n".join(f"* `{line.lstrip()[2:].strip('`')}`" for line in lines)
        else:
            yield _cell(" ".join(lines))


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts] if parameter.param_type_name == "option" else []
    shown = ", ".join(f"`{each}`" for each in names) or f"`{(parameter.metavar or parameter.name).upper()}`"
    takes = "" if getattr(parameter, "is_flag", False) else f"`{_kind(parameter)}`" if names else ""
    return f"| {shown} | {_cell(takes)} | {_cell(parameter.help or '')} |"


def _kind(parameter: Any) -> str:
    choices = getattr(parameter.type, "choices", None)
    return (
        parameter.metavar
        or (", ".join(str(getattr(each, "value", each)) for each in choices) if choices else "")
        or parameter.type.name.upper()
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
