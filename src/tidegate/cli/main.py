"""`tidegate`: the commands, and their common error handling."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from tidegate.cli.commands import COMMANDS, CommandEntry
from tidegate.cli.exits import Exit, exit_of
from tidegate.core.errors import TidegateError


def app() -> None:
    """Run the command line; a tidegate error is shown without a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # an unsupported character of a terminal is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        with_commands(_used(sys.argv[1:], os.environ))()
    except TidegateError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_of(error.catalogue_entry))
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


def with_commands(loaded: Collection[str]) -> typer.Typer:
    """The command line with these commands loaded.

    The others appear with name and help text only and cannot be called.
    """
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
    for name, entry in COMMANDS.items():
        if name in loaded:
            _add(commands, name, entry)
        else:
            commands.command(name=name, help=entry.summary, hidden=not entry.summary)(_not_loaded)
    return commands


def _used(arguments: Sequence[str], environment: Mapping[str, str]) -> Collection[str]:
    """The command that a call names, or that a shell completes."""
    typed = ""
    if _COMPLETES in environment:
        typed = next((environment[name] for name in _TYPED if name in environment), None)
        if typed is None:  # a shell with another completion format
            return COMMANDS
    return [word for word in [*arguments, *typed.split()] if word in COMMANDS][:1]


_COMPLETES = "_TIDEGATE_COMPLETE"
_TYPED = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The variables of typer's shell scripts: they ask for a completion and give the line."""


def _add(commands: typer.Typer, name: str, entry: CommandEntry) -> None:
    found = _loaded(entry.place)
    if isinstance(found, typer.Typer):
        commands.add_typer(found, name=name)
    else:
        options: dict[str, Any] = _loaded(entry.options) if entry.options else {}
        commands.command(name=name, **options)(found)


def _not_loaded() -> None:
    raise RuntimeError("a command was called that was not loaded")


def _loaded(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def __getattr__(name: str) -> typer.Typer:
    """Load an attribute at first use. `commands`: the command line with all commands."""
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
