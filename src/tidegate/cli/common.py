"""What all commands share: options of one name and meaning, and one way to print for programs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value, for programs.")]
"""The option that every command has."""

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

JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]


def print_json(value: object) -> None:
    """One JSON value on the standard output, one line."""
    typer.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
