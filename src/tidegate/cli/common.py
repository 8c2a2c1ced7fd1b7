"""What all commands share: options of one name and meaning, and one way to print for programs."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from tidegate import operate
from tidegate.cli.tables import can_show
from tidegate.core.errors import TidegateError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value, for programs.")]
"""The option that every command has."""


class Printed(Enum):
    """For whom a command prints."""

    TEXT = "sentences and tables"
    JSON = "one JSON value, for programs"


def printed_as(json: Json) -> Printed:
    """What `--json` says."""
    return Printed.JSON if json else Printed.TEXT


Dir = Annotated[
    str | None,
    typer.Option(
        "--dir",
        metavar="FOLDER",
        help="Where jobs keep their checkpoints; else `checkpointing.dir` of tidegate.toml and the environment.",
    ),
]
"""The option of every command that looks for a job."""

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        metavar="KEY=VALUE",
        help="A setting, with or without a blank after -D; may come again. Stronger than program, file, environment.",
    ),
]
"""The option of every command that takes settings. Strongest of all places that may set one."""


def jobs_folder(named: str | None) -> Path:
    """Where to look for jobs: the folder that `--dir` names, else that of the settings, which the first job makes.

    Raises FOLDER_UNKNOWN where `--dir` names none.
    """
    if named is None:
        return Path(_folder_of_settings()).absolute()
    return operate.existing_folder(named, "--dir")


def _folder_of_settings() -> str:
    from tidegate.settings.found import load_settings  # only whoever names no folder waits for it

    return load_settings({}).checkpointing_dir


def _complete(context: typer.Context, incomplete: str) -> list[str]:
    """The names of jobs that begin so, for the shell."""
    try:
        names = operate.names(jobs_folder(context.params.get("dir")))
    except (OSError, TidegateError):  # nothing to offer; the command itself says why
        return []
    return [name for name in names if name.startswith(incomplete)]


JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name, or its id.", autocompletion=_complete)]


def print_json(value: object) -> None:
    """One JSON value on the standard output, one line; in ASCII where that cannot take every character."""
    typer.echo(json.dumps(value, ensure_ascii=not can_show("─"), separators=(",", ":")))
