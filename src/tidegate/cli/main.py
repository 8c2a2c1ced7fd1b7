"""`tidegate`: the commands, and what every one of them does with an error."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import tidegate
from tidegate.cli.broker import broker
from tidegate.cli.check import check
from tidegate.cli.config import config
from tidegate.cli.control import cancel, checkpoint, stop
from tidegate.cli.demo import demo
from tidegate.cli.exits import Exit, exit_of
from tidegate.cli.jobs import history, info, list_jobs
from tidegate.cli.run import RunCommand, run, run_application
from tidegate.cli.txn import txn
from tidegate.core.errors import TidegateError
from tidegate.testing.demo.driver import DemoFailed

commands = typer.Typer(
    name="tidegate",
    help="End-to-end exactly-once for PySpark Structured Streaming.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 all is well, 1 failed or not exact, 2 wrong usage, 3 unknown job, 4 refused,"
    " 5 outcome unknown, 6 ended with a commit pending, 7 no answer in time, 130 interrupted.",
)
commands.command(name="list")(list_jobs)
commands.command()(info)
commands.command()(history)
commands.command()(checkpoint)
commands.command()(stop)
commands.command()(cancel)
commands.command(cls=RunCommand, context_settings={"allow_interspersed_args": False})(run)
commands.command(
    hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
)(run_application)
commands.command()(demo)
commands.command()(check)
commands.add_typer(txn, name="txn")
commands.add_typer(broker, name="broker")
commands.add_typer(config, name="config")


def app() -> None:
    """Run the command line; an error of tidegate is shown without a traceback."""
    try:
        commands()
    except TidegateError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_of(error.catalogue_entry))
    except DemoFailed as error:
        print(error, file=sys.stderr)
        sys.exit(Exit.FAILED)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


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
