"""`tidegate`: the commands, and what every one of them does with an error."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import tidegate
from tidegate.cli.broker import broker
from tidegate.cli.check import check
from tidegate.cli.demo import demo
from tidegate.cli.txn import txn
from tidegate.core.errors import TidegateError
from tidegate.testing.demo.driver import DemoFailed

FAILED = 1
"""Exit code: it failed, or was not exact. (0: all is well. 2: the command was written wrongly.)"""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

commands = typer.Typer(
    name="tidegate",
    help="End-to-end exactly-once for PySpark Structured Streaming.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 all is well, 1 failed or not exact, 2 wrong usage, 130 interrupted.",
)
commands.command()(demo)
commands.command()(check)
commands.add_typer(txn, name="txn")
commands.add_typer(broker, name="broker")


def app() -> None:
    """Run the command line; an error of tidegate is shown without a traceback."""
    try:
        commands()
    except (TidegateError, DemoFailed) as error:
        print(error, file=sys.stderr)
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tidegate {tidegate.__version__}")
        raise typer.Exit


@commands.callback()
def _options(  # pyright: ignore[reportUnusedFunction]
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """End-to-end exactly-once for PySpark Structured Streaming."""


if __name__ == "__main__":
    app()
