"""`tidegate savepoint`: takes, lists, shows, verifies and removes savepoints, and previews a restore."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import to_builtins
from typer.core import TyperGroup

from tidegate import operate
from tidegate.cli.cluster_options import of_a_job
from tidegate.cli.common import (
    Application,
    Dir,
    JobName,
    Json,
    Overrides,
    opened_job,
    print_json,
    printed_as,
)
from tidegate.cli.control import CommandRequest, Form, RequestId, Timeout, ask_job
from tidegate.cli.exits import Exit
from tidegate.cli.restore_options import (
    AllowChangedOperator,
    AllowNonRestored,
    AllowNonRestoredOf,
    Claim,
    GivenSavepoint,
    OffsetsOnly,
    Renamed,
    RestoreOptions,
    Rewind,
    StateOnly,
    allowed_changes,
    restore_from,
)
from tidegate.cli.savepoint_archive import export, import_
from tidegate.cli.savepoint_diff import diff
from tidegate.cli.savepoint_view import show
from tidegate.cli.tables import Column, print_table
from tidegate.core.errors import TidegateError
from tidegate.operate import FolderIs, Kind, Savepoints, SavepointView
from tidegate.settings.found import load_settings


class _TakesUnasked(TyperGroup):
    """As in Flink: `savepoint JOB [DIR]` is `savepoint take JOB [DIR]`. A job with the name of a command needs
    `take`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        line = of_a_job(args)
        args = line.args
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["take", *args]
        if line.application and args[:1] == ["take"]:
            args = ["take", f"--yarnapplicationId={line.application}", *args[1:]]
        return super().parse_args(ctx, args)


savepoint = typer.Typer(
    cls=_TakesUnasked,
    help="Take, list, inspect, verify, compare, move, check, dispose of savepoints; `savepoint JOB [DIR]` takes one.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

savepoint.command()(diff)
savepoint.command()(export)
savepoint.command("import")(import_)

_SHOWN = 10
"""The number of missing files to show: in a partly copied savepoint every file may be missing."""

SavepointPath = Annotated[str, typer.Argument(metavar="PATH", help="The savepoint's folder, or its URI.")]


@savepoint.command()
def take(
    job: JobName,
    folder: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="Where to create the savepoint's folder. Default: `savepoints.dir`."),
    ] = None,
    form: Form = None,
    timeout: Timeout = None,
    id: RequestId = None,
    application: Application = None,
    dir: Dir = None,
    json: Json = False,
) -> None:
    """Take a savepoint of all rows that a running job has read so far. The job keeps running. The limit is 10 min by
    default.

    The savepoint is complete or absent. It contains no absolute path of its own, and the job never changes it. Without
    `DIR` it is written to the folder of the job's own setting `savepoints.dir`.

    Examples:

    - `tidegate savepoint take wordcount /backup/savepoints`

    - `tidegate savepoint take wordcount /backup/savepoints --type canonical`

    - `tidegate savepoint wordcount --id before-the-upgrade --json`
    """
    request = CommandRequest(Kind.SAVEPOINT, id, timeout, folder or None, form)
    ask_job(opened_job(dir, job, application), request, printed_as(json))


@savepoint.command()
def ls(
    folder: Annotated[
        str | None, typer.Argument(metavar="[DIR]", help="The folder of the savepoints. Default: `savepoints.dir`.")
    ] = None,
    json: Json = False,
) -> None:
    """List the savepoints in a folder, the newest first. Exit code 1 when one of them cannot be read.

    Examples:

    - `tidegate savepoint ls /backup/savepoints`

    - `tidegate savepoint ls --json`
    """
    named = folder or load_settings({}).savepoints_dir
    if named is None:
        raise typer.BadParameter("name a folder, or set savepoints.dir", param_hint="DIR")
    found = operate.list_savepoints(named)
    if json:
        print_json({"savepoints": to_builtins(found.savepoints), "problems": _problems(found.problems)})
    elif not found.savepoints and not found.problems:
        typer.echo(_nothing_in(found))
    else:
        if found.savepoints:
            _show_list(found.savepoints)
        for error in found.problems:
            typer.echo(error, err=True)
    if found.problems:
        raise typer.Exit(Exit.FAILED)


@savepoint.command()
def inspect(path: SavepointPath, json: Json = False) -> None:
    """Show the content of a savepoint: for each query its epoch, the end offsets of its sources, watermark, state,
    sinks.

    For each stateful operator: the number of stores and partitions, rows and bytes. Only the manifest is read.

    Examples:

    - `tidegate savepoint inspect /backup/savepoints/savepoint-0f1e2d3c-nightly`

    - `tidegate savepoint inspect savepoint-0f1e2d3c-nightly --json`
    """
    found = operate.inspect_savepoint(path)
    if json:
        print_json(to_builtins(found))
    else:
        show(found)


@savepoint.command()
def verify(path: SavepointPath, json: Json = False) -> None:
    """Read every file of a savepoint and compare it with the manifest. Exit code 1 if a file is missing or different.

    Examples:

    - `tidegate savepoint verify /backup/savepoints/savepoint-0f1e2d3c-nightly`

    - `tidegate savepoint verify savepoint-0f1e2d3c-nightly --json`
    """
    found = operate.verify_savepoint(path)
    wrong = found.problems
    if json:
        print_json({"path": found.path, "whole": not wrong, "files": found.files, "problems": _problems(wrong)})
    elif not wrong:
        typer.echo(f"OK: {found.files} files are unchanged")
    else:
        for error in wrong[:_SHOWN]:
            typer.echo(error, err=True)
        if len(wrong) > _SHOWN:
            typer.echo(f"and {len(wrong) - _SHOWN} more; all of them: tidegate savepoint verify --json", err=True)
    if wrong:
        raise typer.Exit(Exit.FAILED)


@savepoint.command()
def check(
    app: Annotated[
        Path,
        typer.Argument(metavar="APP", exists=True, dir_okay=False, help="The program to restore from the savepoint."),
    ],
    path: GivenSavepoint,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]...", help="The program's own arguments, after `--`.")
    ] = None,
    allow_non_restored: AllowNonRestored = False,
    allow_non_restored_of: AllowNonRestoredOf = None,
    claim: Claim = False,
    renamed: Renamed = None,
    offsets_only: OffsetsOnly = False,
    state_only: StateOnly = False,
    rewind: Rewind = False,
    allow_changed_operator: AllowChangedOperator = None,
    define: Overrides = None,
    dir: Dir = None,
    json: Json = False,
) -> None:
    """Show whether a program's job can be restored from a savepoint: ok, migrate (with the changes), or impossible.

    The program runs up to the start of its job; every file of the savepoint is read, and every sink is contacted. No
    job is started, and nothing is written. Exit code 4 if the restore is impossible.

    Examples:

    - `tidegate savepoint check wordcount.py -s /backup/savepoints/savepoint-0f1e2d3c-nightly`

    - `tidegate savepoint check wordcount.py -s savepoint-0f1e2d3c-nightly --map counts=words --json`
    """
    told = RestoreOptions(
        claim=claim,
        allow=allow_non_restored,
        allow_of=allow_non_restored_of,
        renamed=renamed,
        offsets_only=offsets_only,
        state_only=state_only,
        rewind=rewind,
    )
    restore = restore_from(path, told)
    overrides = [*([] if dir is None else [f"checkpointing.dir={dir}"]), *(define or [])]
    found = operate.check_restore(app, arguments or [], overrides, restore, allowed_changes(allow_changed_operator))
    if json:
        problems = [{"problem": each.detail, "next": each.next} for each in found.problems]
        print_json({**to_builtins(found.said), "problems": problems})
    else:
        typer.echo(found.said.verdict)
        for text in (*found.said.changes, *(f"{each.detail}\n  next: {each.next}" for each in found.problems)):
            typer.echo(f"- {text}")
    if found.problems:
        raise typer.Exit(Exit.REFUSED)


@savepoint.command()
def dispose(path: SavepointPath, json: Json = False) -> None:
    """Remove a savepoint. Refused if its folder holds foreign files. No job depends on its files.

    After a kill the same command completes the removal.

    Examples:

    - `tidegate savepoint dispose /backup/savepoints/savepoint-0f1e2d3c-nightly`

    - `tidegate savepoint dispose savepoint-0f1e2d3c-nightly --json`
    """
    operate.dispose_savepoint(path)
    if json:
        print_json({"path": str(operate.Folder.of(path)), "disposed": True})
    else:
        typer.echo(f"removed {operate.Folder.of(path)}")


def _nothing_in(found: Savepoints) -> str:
    match found.folder_is:
        case FolderIs.MISSING:
            return f"no savepoint: there is no folder {found.folder}"
        case FolderIs.A_SAVEPOINT:
            inspect = f"tidegate savepoint inspect {shlex.quote(found.folder)}"
            return f"no savepoint in {found.folder}, which is one itself: {inspect}"
        case FolderIs.A_FOLDER:
            return f"no savepoint in {found.folder}"


def _show_list(found: Sequence[SavepointView]) -> None:
    columns = [Column(name) for name in ("savepoint", "job", "taken at", "epochs")]
    rows = [
        (
            Path(each.path).name,
            each.job,
            each.at,
            ", ".join(f"{query} {epoch}" for query, epoch in each.epochs.items()),
            str(each.bytes),
            each.claimed_by or "no job",
        )
        for each in found
    ]
    print_table([*columns, Column("bytes", number=True), Column("claimed by")], rows)


def _problems(errors: Sequence[TidegateError]) -> list[dict[str, str]]:
    return [{"code": each.code, "expected": each.expected, "found": each.found, "where": each.where} for each in errors]
