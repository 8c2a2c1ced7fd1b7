"""What all commands share: options of one name and meaning, and one way to print for programs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from tidegate.core.config import Settings

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


def jobs_folder(given: str | None) -> Path:
    """Where jobs keep their checkpoints: what `--dir` names, else the setting `checkpointing.dir`."""
    return Path(Settings.load({}, os.environ).checkpointing_dir if given is None else given).absolute()


def print_json(value: object) -> None:
    """One JSON value on the standard output, one line."""
    typer.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
