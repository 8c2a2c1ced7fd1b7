"""The demo's output: a progress bar on a terminal, lines elsewhere, a table at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidegate.testing.demo.places import Gate
from tidegate.testing.demo.run import Began, DemoProgress, DemoReport, Event, Killed, Options, Preparation, Started
from tidegate.testing.demo.schedule import Phase


@contextmanager
def show_progress(options: Options) -> Generator[Callable[[Event], None], None, None]:
    """Shows events on standard error: standard output is for the result."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("batches through both queries", total=None)

        def tell(event: Event) -> None:
            match event:
                case Began(batches=batches):
                    bar.update(task, total=batches)
                case DemoProgress(complete=complete):
                    bar.update(task, completed=complete)
                case _:
                    pass
            line = _line(event, options)
            if line:
                bar.console.print(line, soft_wrap=True)

        yield tell


def show_report(report: DemoReport) -> None:
    """The result on standard output."""
    console = Console(highlight=False)
    verdict = "[bold green]exact" if report.ok else "[bold red]NOT exact"
    table = Table(title=f"{verdict}[/] with the gate {report.gate}, seed {report.seed}", title_justify="left")
    table.add_column("records")
    table.add_column("", justify="right")
    for name, number in (
        ("lines in", report.records_in),
        ("lines out", report.records_out),
        ("lost", report.lost),
        ("duplicated", report.duplicated),
        ("wrong counts", report.wrong_counts),
        ("invented", report.invented),
        ("torn epochs", report.torn),
    ):
        table.add_row(name, str(number))
    if report.dead_letters is not None:
        table.add_row("dead letters", str(report.dead_letters))
    table.add_section()
    table.add_row("kills", f"{report.kills}  ({_by_phase(report)})")
    table.add_row("epochs", str(report.epochs))
    table.add_row("transactions aborted, redone", f"{report.aborted}, {report.redone}")
    table.add_row("time of an epoch (median)", "-" if report.epoch_ms is None else f"{report.epoch_ms:g} ms")
    table.add_row("in all", f"{report.seconds:g} s")
    console.print(table)
    if report.counterexample:
        console.print(f"The first wrong records:\n{report.counterexample}", markup=False, soft_wrap=True)


def _line(event: Event, options: Options) -> str | None:
    match event:
        case Preparation(line):
            return line
        case Began(lines, batches, kills):
            who = "tidegate" if options.gate is Gate.on else "plain foreachBatch"
            return f"{lines} lines in {batches} batches, {len(kills)} kills, seed {options.seed}, written by {who}"
        case Started(run):
            return f"driver {run} started"
        case Killed(number, kill, queries):
            what = "Python and JVM" if kill.jvm_too else "Python"
            where = f"epoch {kill.epoch} of {' and '.join(queries)}"
            at = f", at {kill.point}" if options.gate is Gate.on else ""
            return f"kill -9 number {number} ({what}) in {where}: phase {kill.phase.name}, {kill.phase.value}{at}"
        case DemoProgress():
            return None


def _by_phase(report: DemoReport) -> str:
    return ", ".join(f"{phase.name} {report.kills_by_phase[phase.name]}" for phase in Phase)
