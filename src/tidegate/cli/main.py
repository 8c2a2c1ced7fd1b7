"""`tidegate`: the commands, and what every one of them does with an error."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any

import typer

from tidegate.cli.exits import Exit, exit_of
from tidegate.core.errors import TidegateError

COMMANDS = {
    "run": "tidegate.cli.run:run",
    "list": "tidegate.cli.jobs:list_jobs",
    "info": "tidegate.cli.jobs:info",
    "history": "tidegate.cli.jobs:history",
    "checkpoint": "tidegate.cli.control:checkpoint",
    "savepoint": "tidegate.cli.savepoint:savepoint",
    "stop": "tidegate.cli.control:stop",
    "cancel": "tidegate.cli.control:cancel",
    "txn": "tidegate.cli.txn:txn",
    "check": "tidegate.cli.check:check",
    "config": "tidegate.cli.config:config",
    "warm-up": "tidegate.cli.warm_up:warm_up",
    "demo": "tidegate.cli.demo:demo",
    "broker": "tidegate.cli.broker:broker",
    "run-application": "tidegate.cli.run:run_application",
}
"""Every command, in the order of the help: where its function, or its group of commands, is found. One that is called
by its name is loaded alone: `tidegate list` need not wait for what the others import."""

SPECIAL = {
    "run": "tidegate.cli.run:RUN",
    "run-application": "tidegate.cli.run:RUN_APPLICATION",
    "stop": "tidegate.cli.control:STOP",
    "cancel": "tidegate.cli.control:CANCEL",
}
"""The commands that typer is to treat in a way of their own, and where that stands."""


def app() -> None:
    """Run the command line; an error of tidegate is shown without a traceback."""
    named = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        with_commands([named] if named in COMMANDS else COMMANDS)()
    except TidegateError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_of(error.catalogue_entry))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


def with_commands(names: Iterable[str]) -> typer.Typer:
    """The command line with these commands."""
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
    commands.callback()(_options)
    for name in names:
        found = _loaded(COMMANDS[name])
        if isinstance(found, typer.Typer):
            commands.add_typer(found, name=name)
        else:
            options: dict[str, Any] = _loaded(SPECIAL[name]) if name in SPECIAL else {}
            commands.command(name=name, **options)(found)
    return commands


def _loaded(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def __getattr__(name: str) -> typer.Typer:
    """`commands`: the command line with all of them."""
    if name == "commands":
        return with_commands(COMMANDS)
    raise AttributeError(name)


def _show_version(wanted: bool) -> None:
    if wanted:
        import tidegate

        typer.echo(f"tidegate {tidegate.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """End-to-end exactly-once for PySpark Structured Streaming."""


if __name__ == "__main__":
    app()
