"""With which exit code a command ends that an error of tidegate stops."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from tidegate.cli.exits import Exit
from tidegate.core.errors import Code, Remedy, TidegateError


@contextmanager
def with_exit_codes() -> Generator[None]:
    """Show an error of tidegate and end with the code that belongs to it."""
    try:
        yield
    except TidegateError as error:
        typer.echo(error, err=True)
        raise typer.Exit(_exit_of(error.catalogue_entry)) from None


def _exit_of(code: Code) -> Exit:
    match code:
        case Code.JOB_UNKNOWN:
            return Exit.UNKNOWN_JOB
        case Code.TRANSACTION_UNNAMED:
            return Exit.FAILED
        case Code.TRANSACTION_UNKNOWN:
            return Exit.OUTCOME_UNKNOWN
        case Code.DRIVER_ALIVE:
            return Exit.REFUSED
        case _:
            return Exit.REFUSED if code.remedy is Remedy.DECIDE else Exit.FAILED
