"""The options that name a cluster, as in `spark-submit`."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.submit.submission import DeployMode

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

WITH_VALUE = frozenset({"--master", "--deploy-mode", "--archives", "--conf"})
