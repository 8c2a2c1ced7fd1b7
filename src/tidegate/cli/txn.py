"""`tidegate txn`: the waiting transactions of a job, and commands to end one while the job does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidegate import operate
from tidegate.cli.common import Dir, JobName, Json, Printed, jobs_folder, print_json, printed_as
from tidegate.cli.exits import Exit
from tidegate.cli.sink_options import SinkOptions, pairs
from tidegate.core.errors import TidegateError

if TYPE_CHECKING:  # loaded at its first use: other commands do not wait for the code of the sinks
    from tidegate.operate import Ended, Waiting

txn = typer.Typer(
    help="Open transactions of a job: list them, commit or abort one.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The full name of the transaction, as `txn ls` shows it.")]
Force = Annotated[
    str | None,
    typer.Option("--force", metavar="NAME", help="Do it although the verdict is another one. Repeat the full name."),
]
WaitSeconds = Annotated[float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait for a sink.")]


@txn.command()
def ls(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="The job's name; without it, all jobs.")] = None,
    dir: Dir = None,
    option: SinkOptions = None,
    json: Json = False,
) -> None:
    """List the waiting transactions: each with its epoch, its age, and the verdict on it.

    Verdicts: `commit` (decided: the next start commits it), `abort` (no decision names it, and its run has ended: the
    next start aborts it), `in use` (the job runs), `foreign` (it belongs to another job), `unknown` (check it by hand).
    Changes nothing, and works whether the job runs or not. Exit code 1 if a sink or a job was unreadable.

    Examples:

    - `tidegate txn ls`

    - `tidegate txn ls wordcount --json`

    - `tidegate txn ls wordcount --option sasl.password=env:KAFKA_PASSWORD`
    """
    root, options = jobs_folder(dir), pairs(option)
    looks = (operate.open(root, job).transactions(options),) if job else operate.list_transactions(root, options)
    waiting = [each for found in looks for each in found.waiting]
    problems = [each for found in looks for each in found.problems]
    if json:
        print_json({"transactions": [msgspec.to_builtins(each) for each in waiting], "problems": _told(problems)})
    else:
        _show(waiting)
        for problem in problems:
            typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(Exit.FAILED)


@txn.command()
def commit(
    job: JobName,
    name: Name,
    force: Force = None,
    wait: WaitSeconds = 30.0,
    dir: Dir = None,
    option: SinkOptions = None,
    json: Json = False,
) -> None:
    """Commit a decided transaction of a job that does not run, with its epoch and every decided epoch before it.

    The job's next start would do this first. An epoch is committed completely, into all its sinks, and marked done. A
    second call finds it committed. Refused (exit code 4) while the job runs, and for an undecided transaction: its
    commit would repeat rows. Exit code 5: it is unknown whether it was committed.

    Example:

    - `tidegate txn commit wordcount tg.1c0ffee5.counts.topic.0a1b2c3d.0.1@2001:7`
    """
    _demand_the_name(name, force)
    client = operate.open(jobs_folder(dir), job)
    ended = client.commit(name, pairs(option), force=force, patience_seconds=wait)
    _show_end(job, name, ended, printed_as(json))


@txn.command()
def abort(
    job: JobName,
    name: Name,
    force: Force = None,
    dir: Dir = None,
    option: SinkOptions = None,
    json: Json = False,
) -> None:
    """Abort a transaction that no decision names, of a job that does not run. Its input is replayed.

    The job's next start would do the same. Waiting readers continue at once. Refused (exit code 4) while the job runs,
    and for a decided transaction: it must be committed.

    Example:

    - `tidegate txn abort wordcount tg.1c0ffee5.counts.topic.0a1b2c3d.0.1@2001:7`
    """
    _demand_the_name(name, force)
    ended = operate.open(jobs_folder(dir), job).abort(name, pairs(option), force=force)
    _show_end(job, name, ended, printed_as(json))


def _demand_the_name(name: str, force: str | None) -> None:
    if force is not None and force != name:
        raise typer.BadParameter("expected NAME once more, typed out whole", param_hint="--force")


def _show_end(job: str, name: str, ended: Ended, shown: Printed) -> None:
    if shown is Printed.JSON:
        told = {"job": job, "name": name, "outcome": ended.ending.name.lower().replace("_", "-")}
        print_json({**told, "epochs": list(ended.epochs), "detail": ended.detail})
    else:
        typer.echo(f"{name}: {ended.ending.value}")
        if ended.epochs:
            typer.echo(f"done: epoch {', '.join(map(str, ended.epochs))}")
        if ended.detail:
            typer.echo(ended.detail, err=True)
    raise typer.Exit(_EXITS[ended.ending.name])


_EXITS: Mapping[str, Exit] = {
    "COMMITTED": Exit.OK,
    "ALREADY": Exit.OK,
    "ABORTED": Exit.OK,
    "NOTHING_OPEN": Exit.OK,
    "NOT_DONE": Exit.PENDING,
    "NOT_COMMITTED": Exit.FAILED,
    "UNKNOWN": Exit.OUTCOME_UNKNOWN,
}


def _told(problems: Sequence[TidegateError]) -> list[dict[str, str]]:
    return [
        {"code": each.code, "expected": each.expected, "found": each.found, "where": each.where, "next": each.next_step}
        for each in problems
    ]


_HEAD = ("VERDICT", "LEDGER", "SINK", "JOB", "QUERY/SINK", "EPOCH", "RUN", "TASK", "ROWS", "AGE", "NAME")


def _show(waiting: Sequence[Waiting]) -> None:
    """One line each. The full name comes last, so that it can be copied."""
    if not waiting:
        typer.echo("nothing waits")
        return
    lines = [_HEAD, *(_line(each) for each in waiting)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD) - 1)]
    for line in lines:
        typer.echo("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]))


def _line(each: Waiting) -> tuple[str, ...]:
    numbers = ("-" if number is None else str(number) for number in (each.epoch, each.run, each.task, each.rows))
    age = "-" if each.age_seconds is None else _age(each.age_seconds)
    whose = f"{each.query}/{each.sink}"
    return (each.verdict.value, each.named.value, each.seen.value, each.job, whose, *numbers, age, each.name)


def _age(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
