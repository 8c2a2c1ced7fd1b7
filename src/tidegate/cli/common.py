"""What all commands share: options of one name and meaning, and one way to print for programs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from tidegate.jobs.log_lines import LogFormat
from tidegate.jobs.logs import FORMAT_VARIABLE, LEVEL_VARIABLE, LogLevel

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

JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]


LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        "--log-format", envvar=FORMAT_VARIABLE, help="How the lines of the log are written: for people, for programs."
    ),
]

LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", envvar=LEVEL_VARIABLE, help="The least level of what is written to the log.")
]


def print_json(value: object) -> None:
    """One JSON value on the standard output, one line."""
    typer.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
