"""Shared by all commands: options with one name and meaning, and one way to print for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate import operate
from tidegate.cli.exits import Exit
from tidegate.cli.tables import can_show
from tidegate.core.errors import TidegateError

if TYPE_CHECKING:
    from tidegate.settings.config import Settings

Json = Annotated[bool, typer.Option("--json", help="Print one JSON value, for programs.")]
"""The option of every command."""


class Printed(Enum):
    """The output of a command: text for a terminal, or JSON for programs."""

    TEXT = "sentences and tables"
    JSON = "one JSON value, for programs"


def printed_as(json: Json) -> Printed:
    """The reader that `--json` selects."""
    return Printed.JSON if json else Printed.TEXT


Dir = Annotated[
    str | None,
    typer.Option(
        "--dir",
        metavar="FOLDER",
        help="The folder of the jobs' checkpoints. Default: `checkpointing.dir` in tidegate.toml or the environment.",
    ),
]
"""The option of every command that looks for a job."""

Application = Annotated[
    str | None,
    typer.Option(
        "--yarnapplicationId",
        "-yid",
        metavar="APP",
        help="The application of YARN that the job runs in: another one is refused. No --dir is needed.",
    ),
]
"""The option of the commands that ask a job for something, as in Flink."""

JobsOfApplication = Annotated[
    str | None,
    typer.Option(
        "--yarnapplicationId",
        "-yid",
        metavar="APP",
        help="Only the jobs of this application of YARN. No --dir is needed.",
    ),
]
"""The option of the command that lists jobs."""

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        metavar="KEY=VALUE",
        help="A setting, with or without a space after -D. Repeatable. Overrides program, file and environment.",
    ),
]
"""The option of every command that takes settings. It overrides all other places."""


def opened_job(named: str | None, job: str, application: str | None = None) -> operate.JobClient:
    """The job in the folder of `--dir`; without one, in the folder of the settings, or in a folder that a driver on
    YARN has noted. It must run in the application of YARN that is named, if one is. A job that runs in none is taken,
    with a note on the standard error.
    """
    folder = jobs_folder(named)
    client = operate.open_anywhere(folder, job, application or "") if named is None else operate.open(folder, job)
    if application and not client.runs_on_yarn(application):
        typer.echo(
            f"note: -yid {application}: the job runs in no application of YARN, and is found by its name or its id",
            err=True,
        )
    return client


def jobs_folder(named: str | None) -> operate.Folder:
    """The folder of the jobs: the folder of `--dir`, otherwise the folder of the settings, which the first job creates.

    Raises FOLDER_UNKNOWN if the folder of `--dir` does not exist.
    """
    if named is None:
        return operate.Folder.of(_folder_of_settings())
    return operate.existing_folder(named, "--dir")


def usable_settings(environment: Mapping[str, str]) -> Settings:
    """The settings from the environment and the settings file, without those that a program sets.

    If they are invalid, the error is shown and the command ends with the exit code of wrong usage.
    """
    from tidegate.settings.found import load_settings  # only for commands that take settings

    try:
        return load_settings({}, environment=environment)
    except TidegateError as error:
        typer.echo(error, err=True)
        raise typer.Exit(Exit.USAGE) from None


def _folder_of_settings() -> str:
    from tidegate.settings.found import load_settings  # not needed with --dir: loaded here

    return load_settings({}).checkpointing_dir


def _complete(context: typer.Context, incomplete: str) -> list[str]:
    """The names of jobs with this prefix, for the shell."""
    try:
        names = operate.names(jobs_folder(context.params.get("dir")))
    except (OSError, TidegateError):  # no completion; the command itself reports the error
        return []
    return [name for name in names if name.startswith(incomplete)]


JobName = Annotated[str, typer.Argument(metavar="JOB", help="The job's name, or its id.", autocompletion=_complete)]


def print_json(value: object) -> None:
    """Print one JSON value on the standard output, as one line; in ASCII if the output cannot encode every
    character."""
    typer.echo(json.dumps(value, ensure_ascii=not can_show("─"), separators=(",", ":")))
