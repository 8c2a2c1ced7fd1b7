"""`tidegate checkpoint`, `stop`, `cancel`: requests to a running job, from any process that reaches its folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tidegate import operate
from tidegate.cli.cluster_options import of_a_job
from tidegate.cli.common import (
    Application,
    Dir,
    JobName,
    Json,
    Printed,
    opened_job,
    print_json,
    printed_as,
)
from tidegate.cli.exits import Exit
from tidegate.cli.tables import show_waiting
from tidegate.operate import Answer, JobClient, Kind, Outcome, SavepointFormat, Stage, Ticket, TicketView
from tidegate.settings.config import DURATION


def _duration(text: str | None) -> str | None:
    """An invalid duration is wrong usage."""
    if text is not None:
        try:
            DURATION.read(text)
        except ValueError:
            raise typer.BadParameter(f"expected {DURATION.expected}") from None
    return text


Timeout = Annotated[
    str | None,
    typer.Option("--timeout", callback=_duration, metavar="DURATION", help="How long to wait for the job's answer."),
]
RequestId = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="ID", help="The id of the request: a second command with the same id is the same request."
    ),
]


Form = Annotated[
    SavepointFormat | None,
    typer.Option(
        "--type",
        "--format",
        help="`native` (default): Spark's own files, copied. `canonical`: the state as Parquet files, which other tools"
        " can read.",
    ),
]
"""The format of the state in a savepoint."""


def checkpoint(
    job: JobName, timeout: Timeout = None, id: RequestId = None, dir: Dir = None, json: Json = False
) -> None:
    """Take a checkpoint: wait until all rows that a running job has read so far are visible. The limit is 10 min by
    default.

    An idle job answers at once with its newest checkpoint.

    Examples:

    - `tidegate checkpoint wordcount`

    - `tidegate checkpoint wordcount --timeout 30s --json`
    """
    ask_job(opened_job(dir, job), CommandRequest(Kind.CHECKPOINT, id, timeout), printed_as(json))


def stop(
    job: JobName,
    savepoint: Annotated[
        str | None,
        typer.Option("--savepointPath", "-p", metavar="[DIR]", help="Take a savepoint in DIR, or in `savepoints.dir`."),
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="End the job for good: emit every window and timer first.")
    ] = False,
    form: Form = None,
    timeout: Timeout = None,
    id: RequestId = None,
    application: Application = None,
    dir: Dir = None,
    json: Json = False,
) -> None:
    """Stop a running job after its current epoch is done. The next start resumes after this epoch.

    The command waits a minute longer than the job's `stop_timeout`. If a sink does not accept a decided epoch by then,
    the job ends anyway, with exit code 6: the next start commits the epoch. A job that reads a plain socket cannot be
    stopped.

    With `-p` the job takes a savepoint of its last epoch before it ends; the command waits ten minutes more. If the job
    has ended already, a repeated command takes the missing savepoint. If the job's own `savepoints.dir` is set, a
    savepoint is taken there without `-p` too; the answer shows whether there is one.

    With `--drain` every due window and timer is emitted first, and no later start resumes from there. The savepoint of
    such an end, `-p --drain`, can be read and kept; no job is restored from it.

    Examples:

    - `tidegate stop wordcount`

    - `tidegate stop wordcount -p /backup/savepoints --id before-the-upgrade`

    - `tidegate stop wordcount -p /backup/savepoints --type canonical`

    - `tidegate stop wordcount --drain`

    - `tidegate stop wordcount -p /backup/savepoints --drain`

    - `tidegate stop wordcount --id nightly-2026-11-22 --json`
    """
    client = opened_job(dir, job, application)
    request = CommandRequest(_STOPS[savepoint is not None, drain], id, timeout, savepoint or None, form)
    _only_with_a_savepoint(client, request, "-p")
    ask_job(client, request, printed_as(json))


_STOPS: Mapping[tuple[bool, bool], Kind] = {
    (False, False): Kind.STOP,
    (False, True): Kind.DRAIN,
    (True, False): Kind.STOP_WITH_SAVEPOINT,
    (True, True): Kind.DRAIN_WITH_SAVEPOINT,
}
"""By two questions: with a savepoint or not, drain or not."""


def cancel(
    job: JobName,
    savepoint: Annotated[
        str | None,
        typer.Option("--withSavepoint", "-s", metavar="[DIR]", help="Take a savepoint in DIR, or in `savepoints.dir`."),
    ] = None,
    form: Form = None,
    timeout: Timeout = None,
    id: RequestId = None,
    application: Application = None,
    dir: Dir = None,
    json: Json = False,
) -> None:
    """End a running job at once: undecided epochs are aborted, and the next start replays their input.

    The command waits a minute by default. With `-s` the job takes a savepoint of the newest epoch that is done before
    it ends; the command waits ten minutes for it.

    Examples:

    - `tidegate cancel wordcount`

    - `tidegate cancel wordcount -s /backup/savepoints --json`
    """
    client = opened_job(dir, job, application)
    kind = Kind.CANCEL if savepoint is None else Kind.CANCEL_WITH_SAVEPOINT
    request = CommandRequest(kind, id, timeout, savepoint or None, form)
    _only_with_a_savepoint(client, request, "-s")
    ask_job(client, request, printed_as(json))


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """The request of a command, as its command line gives it."""

    kind: Kind
    id: str | None
    timeout: str | None
    into: str | None = None
    form: SavepointFormat | None = None


def _only_with_a_savepoint(client: JobClient, request: CommandRequest, option: str) -> None:
    if request.form is not None and not client.takes_savepoint(request.kind):
        raise typer.BadParameter(f"only with a savepoint: {option}", param_hint="--type")


class PathIsOptional(TyperCommand):
    """The path after -p and -s may be left out, as in Flink. If the path is the only argument left, it is the JOB."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        line = of_a_job(args)
        named = [f"--yarnapplicationId={line.application}"] if line.application else []
        return super().parse_args(ctx, _with_a_value([*named, *line.args]))


STOP = CANCEL = {"cls": PathIsOptional}

_PATHS = {"-p": "--savepointPath", "--savepointPath": "", "-s": "--withSavepoint", "--withSavepoint": ""}
_WITH_VALUE = frozenset({"--timeout", "--id", "--dir", "--type", "--format"})


def _with_a_value(args: Sequence[str]) -> list[str]:
    """The same arguments, with an empty value for the path option if it was left out."""
    at = next((index for index, each in enumerate(args) if each in _PATHS), None)
    if at is None:
        return list(args)
    name, before, behind = _PATHS[args[at]] or args[at], args[:at], args[at + 1 :]
    if not behind or behind[0].startswith("-") or not _names_a_job([*before, *behind[1:]]):
        return [*before, f"{name}=", *behind]
    return [*before, f"{name}={behind[0]}", *behind[1:]]


def _names_a_job(args: Sequence[str]) -> bool:
    """True if an argument is left that is neither an option nor an option's value."""
    is_value = [False, *(each in _WITH_VALUE for each in args)]
    return any(not each.startswith("-") and not value for each, value in zip(args, is_value, strict=False))


_EXITS: Mapping[Outcome, Exit] = {
    Outcome.DONE: Exit.OK,
    Outcome.REFUSED: Exit.REFUSED,
    Outcome.PENDING: Exit.PENDING,
    Outcome.FAILED: Exit.FAILED,
    Outcome.TOO_LATE: Exit.REFUSED,
    Outcome.NOT_RUNNING: Exit.REFUSED,
    Outcome.UNKNOWN: Exit.OUTCOME_UNKNOWN,
}


def ask_job(client: JobClient, request: CommandRequest, shown: Printed) -> None:
    """Send a request to a job, show its answer, and exit with the matching code."""
    ticket, view = _asked(client, request)
    answer = view.answer
    if answer is None:
        _SHOW_NONE[shown](client, request, ticket, view)
        raise typer.Exit(Exit.NO_ANSWER)
    _SHOW[shown](client, request, answer)
    if answer.outcome is not Outcome.DONE:
        raise typer.Exit(_EXITS[answer.outcome])


def _asked(client: JobClient, request: CommandRequest) -> tuple[Ticket, TicketView]:
    with show_waiting(f"{request.kind.value} {client.name}") as tell:
        form = request.form or SavepointFormat.NATIVE
        ticket = client.ask(request.kind, into=request.into, format=form, id=request.id)
        return ticket, ticket.wait(None if request.timeout is None else DURATION.read(request.timeout), tell)


def _show_json(client: JobClient, request: CommandRequest, answer: Answer) -> None:
    shown = {"outcome": answer.outcome.value, "detail": answer.detail, "at": answer.at, "epochs": answer.epochs}
    taken = {} if answer.savepoint is None else {"savepoint": answer.savepoint}
    print_json({"job": client.name, "id": answer.id, "kind": request.kind.value, **shown, **taken})


def _show_text(client: JobClient, request: CommandRequest, answer: Answer) -> None:
    done, kind = answer.outcome is Outcome.DONE, request.kind
    typer.echo(f"{kind.value} {client.name}: {answer.outcome.value}: {answer.detail}", err=not done)
    if answer.savepoint is not None:
        typer.echo(f"  {answer.savepoint}")
    for query, epoch in answer.epochs.items():
        typer.echo(f"  {query}: epoch {epoch} is done" if epoch >= 0 else f"  {query}: no epoch is done yet")
    if kind is Kind.SAVEPOINT and answer.outcome is Outcome.NOT_RUNNING:
        _show_how_it_is_taken_of_an_end(client, request.into)


def _show_how_it_is_taken_of_an_end(client: JobClient, into: str | None) -> None:
    where = "DIR" if into is None else shlex.quote(into)
    typer.echo(
        f"  next: start it first; or take a savepoint of its end: tidegate stop {client.name} -p {where}"
        f" --dir {_storage(client)}",
        err=True,
    )


def _show_none_json(client: JobClient, request: CommandRequest, ticket: Ticket, view: TicketView) -> None:
    detail = _why_there_is_none(request, ticket, view)
    about = {"job": client.name, "id": ticket.id, "kind": ticket.kind.value}
    print_json({**about, "outcome": "no answer", "detail": detail})


def _show_none_text(client: JobClient, request: CommandRequest, ticket: Ticket, view: TicketView) -> None:
    kind, into = ticket.kind, ticket.into
    typer.echo(f"{kind.value} {client.name}: no answer: {_why_there_is_none(request, ticket, view)}", err=True)
    where = "" if into is None else f" {shlex.quote(into)}"
    line = _LINES.get(kind, f"{kind.value} {{job}}{{where}}").format(job=client.name, where=where)
    kept = "" if ticket.format is SavepointFormat.NATIVE else f" --type {ticket.format.value}"
    stands = view.stage is Stage.ASKED
    again = f"tidegate {line}{kept} --id {ticket.id}" if stands else f"tidegate info {client.name}"
    typer.echo(f"  next: {again} --dir {_storage(client)}", err=True)


def _why_there_is_none(request: CommandRequest, ticket: Ticket, view: TicketView) -> str:
    waited = ticket.patience_seconds if request.timeout is None else DURATION.read(request.timeout)
    stands = view.stage is Stage.ASKED
    what = f"request {ticket.id} was sent, and may still be carried out" if stands else "no request was sent"
    return f"waited {waited:g} s for {view.waits_for}; {what}"


def _storage(client: JobClient) -> str:
    """The parent of the job's folder, quoted for a shell: the value of `--dir` in a suggested command line."""
    return shlex.quote(str(operate.Folder.of(client.folder).parent))


_SHOW = {Printed.JSON: _show_json, Printed.TEXT: _show_text}
_SHOW_NONE = {Printed.JSON: _show_none_json, Printed.TEXT: _show_none_text}
_LINES = {
    Kind.DRAIN: "stop {job} --drain",
    Kind.STOP_WITH_SAVEPOINT: "stop {job} -p{where}",
    Kind.DRAIN_WITH_SAVEPOINT: "stop {job} -p{where} --drain",
    Kind.CANCEL_WITH_SAVEPOINT: "cancel {job} -s{where}",
}
"""The command line after `tidegate`, for each kind of request that is not named like a command."""
