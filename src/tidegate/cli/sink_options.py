"""Options of sinks that the job's folder does not store because they may be secrets."""

from __future__ import annotations

from typing import Annotated

import typer

SinkOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of a source or sink that the job's folder does not keep because it may be a secret; best as"
        " `sasl.password=env:VARIABLE` or `=file:PATH`. May come again.",
    ),
]


def pairs(options: list[str] | None) -> dict[str, str]:
    """The options by name. An argument without `NAME=VALUE` is wrong usage."""
    given: dict[str, str] = {}
    for each in options or []:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise typer.BadParameter("expected NAME=VALUE", param_hint="--option")
        given[name] = value
    return given
