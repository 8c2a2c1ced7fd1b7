"""`tidegate demo`: its options, and its folder."""

from __future__ import annotations

import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidegate.core.errors import TidegateError
from tidegate.settings.config import Settings
from tidegate.settings.given import SettingPlace
from tidegate.settings.reading import read_settings
from tidegate.testing.demo.driver import DemoFailed
from tidegate.testing.demo.places import Gate, Places
from tidegate.testing.demo.run import Options, run_demo

NOT_EXACT = 1
WRONG_USAGE = 2


def demo(
    crashes: Annotated[int, typer.Option(min=0, max=50, help="How often the driver is killed (kill -9).")] = 3,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Chooses text, epochs and places of the kills.", show_default="random")
    ] = None,
    gate: Annotated[
        Gate, typer.Option(help="`on`: tidegate. `off`: the same job in plain PySpark (`foreachBatch`).")
    ] = Gate.on,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Read and write topics of a broker that runs during the demo.")
    ] = False,
    poison: Annotated[
        bool, typer.Option("--poison", help="Add one record that a table refuses: it must become a dead letter.")
    ] = False,
    lines: Annotated[int, typer.Option(min=1, max=10_000_000, help="The number of lines of generated text.")] = 20_000,
    input: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Count the words of the text files in this folder instead."),
    ] = None,
    dir: Annotated[
        Path | None,
        typer.Option(file_okay=False, help="Keep input, output, checkpoints and logs here.", show_default="removed"),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting of the job. Repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Show the result as one JSON object, the last line.")] = False,
) -> None:
    """Count words in text that keeps arriving, kill the driver, restart it, compare every record.

    One job with two queries runs on Spark. `counts` keeps a running count of each word and writes every change into a
    SQLite table and into JSON files, in the same epoch. `lines` copies every line. While the text arrives the driver is
    killed at chosen moments (with five crashes in each phase of an epoch). At the end every record of the three sinks
    is compared with the input. Exit code 0 only if no record is lost, repeated or wrong.

    Examples:

    - `tidegate demo`

    - `tidegate demo --crashes 5 --seed 7 --json`

    - `tidegate demo --kafka --crashes 5`

    - `tidegate demo --poison`, with one record that a table refuses

    - `tidegate demo --gate off --seed 7`, the same kills without tidegate

    - `tidegate demo --input my-texts/ --dir kept/`
    """
    from tidegate.cli.demo_view import (
        show_progress,
        show_report,
    )  # imported here: other commands do not wait for the code that draws

    if poison and (kafka or gate is Gate.off):
        raise typer.BadParameter("it needs files, and tidegate: neither --kafka nor --gate off", param_hint="--poison")
    signal.signal(signal.SIGTERM, _leave)
    with _folder(dir) as folder:
        options = Options(
            folder=folder,
            crashes=crashes,
            seed=secrets.randbelow(10_000) if seed is None else seed,
            gate=gate,
            kafka=kafka,
            lines=lines,
            text_folder=input,
            poison=poison,
            settings=_settings(folder, settings or []),
        )
        try:
            with show_progress(options) as tell:
                report = run_demo(options, tell)
        except DemoFailed as error:
            typer.echo(error, err=True)
            raise typer.Exit(NOT_EXACT) from None
    if json:
        typer.echo(msgspec.json.encode(report).decode())
    else:
        show_report(report)
    if not report.ok:
        raise typer.Exit(NOT_EXACT)


def _settings(folder: Path, overrides: list[str]) -> Settings:
    """The settings of the demo's job. Invalid settings are wrong usage."""
    code = {"checkpointing.dir": Places(folder).checkpoints, "checkpointing.interval": 0}
    try:
        settings = read_settings(code, {}, overrides)
    except TidegateError as error:
        typer.echo(error, err=True)
        raise typer.Exit(WRONG_USAGE) from None
    if settings.origins["checkpointing.dir"].place is SettingPlace.OVERRIDE:
        raise typer.BadParameter("the demo keeps its checkpoints in the folder that --dir names", param_hint="-D")
    return settings


def _leave(signal_number: int, _frame: object) -> None:
    """Exit through the `finally` blocks, so that no driver and no folder is left behind."""
    sys.exit(128 + signal_number)


@contextmanager
def _folder(kept: Path | None) -> Generator[Path, None, None]:
    """The folder that the user wants to keep, or a temporary one that is always removed."""
    if kept is not None:
        if kept.exists() and any(kept.iterdir()):
            raise typer.BadParameter(f"{kept} is not empty", param_hint="--dir")
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="tidegate-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
