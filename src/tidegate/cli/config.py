"""`tidegate config`: the settings as they would be for a job started here, and the reference of them all."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.cli.common import Json, Overrides, print_json
from tidegate.settings.config import SETTINGS
from tidegate.settings.found import load_settings
from tidegate.settings.reference import rules_table, settings_table
from tidegate.settings.rules import notes

config = typer.Typer(help="The settings: what they are here and why, and what there is.", no_args_is_help=True)


@config.command()
def show(
    overrides: Overrides = None,
    job: Annotated[
        str, typer.Option("--job", metavar="JOB", help="Also read the file's table [job.JOB].", show_default=False)
    ] = "",
    json: Json = False,
) -> None:
    """Show every setting, its value, and the place that set it.

    Read are `tidegate.toml` in this folder (or the file that TIDEGATE_CONFIG names), the environment (`TIDEGATE_...`)
    and `-D`, in rising order. What a program gives its `Job` stands below all of them, and is not known here.

    Examples:

    - `tidegate config show`

    - `tidegate config show -D checkpointing.interval=1s --json`
    """
    settings = load_settings({}, job=job, overrides=overrides or ())
    rows, told = settings.describe(), notes(settings)
    if json:
        shown = [{"name": row.name, "value": row.value, "origin": row.origin, "meaning": row.meaning} for row in rows]
        print_json({"settings": shown, "notes": told})
        return
    names, values = max(len(row.name) for row in rows), max(len(row.value) for row in rows)
    for row in rows:
        typer.echo(f"{row.name:<{names}}  {row.value or '-':<{values}}  {row.origin}")
    for note in told:
        typer.echo(f"note: {note}", err=True)


@config.command()
def docs(json: Json = False) -> None:
    """Print the reference of all settings, as Markdown.

    Example:

    - `tidegate config docs`
    """
    if json:
        entries = [
            {
                "name": setting.name,
                "takes": setting.kind.expected,
                "default": setting.default,
                "meaning": setting.meaning,
                "flink": setting.flink,
            }
            for setting in SETTINGS.values()
        ]
        print_json(entries)
        return
    typer.echo(f"{settings_table()}\n\n{rules_table()}")
