"""`tidegate config`: the settings that a job started here would have, and the reference of all settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tidegate.cli.common import Json, Overrides, print_json
from tidegate.core.errors import Code, TidegateError
from tidegate.settings.config import SETTINGS
from tidegate.settings.flink_import import Import, import_from_flink
from tidegate.settings.found import FILE, load_settings
from tidegate.settings.reference import rules_table, settings_table
from tidegate.settings.rules import notes

config = typer.Typer(
    help="The settings: their values here, the place that set each, and the reference.", no_args_is_help=True
)


@config.command()
def show(
    overrides: Overrides = None,
    job: Annotated[
        str, typer.Option("--job", metavar="JOB", help="Also read the file's table [job.JOB].", show_default=False)
    ] = "",
    json: Json = False,
) -> None:
    """Show every setting, its value, and the place that set it.

    Places, in rising order: `tidegate.toml` in this folder (or the file that TIDEGATE_CONFIG names), the environment
    (`TIDEGATE_...`) and `-D`. The values that a program passes to its `Job` rank below all of them and are unknown
    here.

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


@config.command("import")
def import_(
    flink: Annotated[Path, typer.Argument(metavar="FLINK-CONF", help="Flink's flink-conf.yaml, or its config.yaml.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The file to write; `-`: the standard output.")
    ] = FILE,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    json: Json = False,
) -> None:
    """Write tidegate.toml from a Flink configuration, and list the keys that are left out, with the reason.

    A file named flink-conf.yaml is read line by line, as in Flink; any other file as YAML with nested or dotted keys. A
    number without a unit gets Flink's unit. Values that are left out are not shown: they may be secrets. The keys that
    are left out are also in the file, as comments. An existing file is replaced only with `--force`.

    Examples:

    - `tidegate config import conf/flink-conf.yaml`

    - `tidegate config import conf/config.yaml -o -`

    - `tidegate config import conf/config.yaml -o jobs/tidegate.toml --force --json`
    """
    from tidegate.settings.flink_file import read_flink_file

    found = import_from_flink(read_flink_file(flink))
    text = found.toml(flink.name)
    to_standard_output = output == "-"
    if not to_standard_output:
        _write(Path(output), text, "w" if force else "x")
    if json:
        print_json(_as_json(found, None if to_standard_output else output))
        return
    if to_standard_output:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"{output}: {len(found.taken)} settings")
        for each in found.taken:
            typer.echo(f"  {each.name} = {each.text}  (from {each.key})")
    for each in found.left_out:
        typer.echo(f"left out: {each.key}: {each.why}", err=to_standard_output)


def _write(path: Path, text: str, mode: Literal["w", "x"]) -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise TidegateError(
            Code.SETTINGS_FILE,
            expected="a file that does not exist yet",
            found="a file",
            where=str(path),
            next_step="overwrite it with --force, or print the result with -o -",
        ) from None
    except OSError as error:
        raise TidegateError(
            Code.SETTINGS_FILE,
            expected="a file that can be written",
            found=error.strerror or type(error).__name__,
            where=str(path),
            next_step="name another file: -o FILE",
        ) from error


def _as_json(found: Import, file: str | None) -> dict[str, object]:
    taken = [{"name": each.name, "value": each.text, "flink": each.key} for each in found.taken]
    return {
        "file": file,
        "settings": taken,
        "left_out": [{"key": each.key, "why": each.why} for each in found.left_out],
    }
