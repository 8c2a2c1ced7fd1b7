"""With which exit code a command ends that an error of tidegate stops."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from tidegate.cli.exits import exit_of
from tidegate.core.errors import TidegateError


@contextmanager
def with_exit_codes() -> Generator[None]:
    """Show an error of tidegate and end with the code that belongs to it."""
    try:
        yield
    except TidegateError as error:
        typer.echo(error, err=True)
        raise typer.Exit(exit_of(error.catalogue_entry)) from None
