"""The options that name a cluster, as in `spark-submit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tidegate.cli.exits import Exit
from tidegate.core.errors import TidegateError
from tidegate.submit.submission import DeployMode, Submission, submission

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark computes: local[*], spark://host:7077, local-cluster[2,1,1024], yarn. Default:"
        " spark-defaults.conf; a master in the program counts more.",
    ),
]
DeployModeOption = Annotated[
    DeployMode,
    typer.Option("--deploy-mode", help="Where the driver runs: `client` is this machine, `cluster` is YARN."),
]
ArchivesOption = Annotated[
    str | None,
    typer.Option(
        "--archives", metavar="FILE#NAME,...", help="Archives that Spark unpacks into the folder NAME of each executor."
    ),
]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark. Repeatable.")
]


def submission_of(master: str | None, mode: DeployMode, archives: str | None, conf: Sequence[str] | None) -> Submission:
    """The options for Spark. If one is invalid, the error is shown and the command ends as for wrong usage."""
    try:
        return submission(master, mode, archives, tuple(conf or ()))
    except TidegateError as error:
        typer.echo(error, err=True)
        raise typer.Exit(Exit.USAGE) from None


WITH_VALUE = frozenset({"--master", "--deploy-mode", "--archives", "--conf"})
