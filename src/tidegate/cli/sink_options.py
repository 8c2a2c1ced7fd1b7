"""Options of sinks that the job's folder does not store because they may be secrets."""

from __future__ import annotations

from typing import Annotated

import typer

SinkOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of a source or sink that may be a secret, so it is not in the job's folder. Best given as"
        " `sasl.password=env:VARIABLE` or `=file:PATH`. Repeatable.",
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
