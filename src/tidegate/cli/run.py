"""`tidegate run`: runs a program as a supervised job, in the foreground or in the background."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from typer.core import TyperCommand

from tidegate import operate
from tidegate.cli.cluster_options import of_a_start, options_before_the_program, program_at
from tidegate.cli.cluster_run import run_in_cluster
from tidegate.cli.common import Dir, Json, Overrides, Printed, print_json, printed_as, usable_settings
from tidegate.cli.detached import Detached, LogHome, detach
from tidegate.cli.exits import Exit
from tidegate.cli.flink_forms import answer_to
from tidegate.cli.log_options import SHOWS_EVERYTHING, LogFormatOption, LogLevelOption, VerboseOption
from tidegate.cli.news import Watching, news_in
from tidegate.cli.open_view import open_view
from tidegate.cli.page_beside import PageNews, opened_page
from tidegate.cli.restore_options import (
    AllowChangedOperator,
    AllowNonRestored,
    AllowNonRestoredOf,
    BeginsFresh,
    Claim,
    FromSavepoint,
    OffsetsOnly,
    Renamed,
    RestoreOptions,
    Rewind,
    StateOnly,
    allowed_changes,
    begin_fresh,
    restore_if_any,
)
from tidegate.cli.submission_options import (
    WITH_VALUE,
    ArchivesOption,
    ConfOption,
    DeployModeOption,
    MasterOption,
    submission_of,
)
from tidegate.logs.lines import LogFormat
from tidegate.logs.writing import LogChoice, LogLevel
from tidegate.savepoints.asked_restore import RESTORE_VARIABLE
from tidegate.settings.config import Settings
from tidegate.settings.given import OVERRIDES_VARIABLE, PAGE_VARIABLE, handed_on
from tidegate.submit.submission import DeployMode
from tidegate.supervise.background_warm_up import BackgroundWarmUp
from tidegate.supervise.news import News
from tidegate.supervise.outcomes import JobEnd, JobOutcome
from tidegate.supervise.signals import Signals
from tidegate.supervise.supervisor import Supervisor

if TYPE_CHECKING:
    from tidegate.web.serving import WebPage


class RunCommand(TyperCommand):
    """Arguments before the program belong to tidegate, those after it to the program. Flink's options get an answer."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = of_a_start(args, _WITH_VALUE, os.environ)
        for option in options_before_the_program(args, _WITH_VALUE):
            answer = None if option in _OWN else answer_to(option)
            if answer is not None:
                raise typer.BadParameter(f"{option} is Flink's. Here: {answer}", ctx=ctx)
        _refuse_a_jar(ctx, args)
        return super().parse_args(ctx, args)


def run(
    app: Annotated[str, typer.Argument(metavar="APP", help="The program: a Python file that makes a job and runs it.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="The program's own arguments.")
    ] = None,
    define: Overrides = None,
    detached: Annotated[
        bool, typer.Option("-d", help="In the background: prints the job, its process and its log.")
    ] = False,
    folder: Dir = None,
    master: MasterOption = None,
    deploy_mode: DeployModeOption = DeployMode.CLIENT,
    archives: ArchivesOption = None,
    conf: ConfOption = None,
    savepoint: FromSavepoint = None,
    allow_non_restored: AllowNonRestored = False,
    allow_non_restored_of: AllowNonRestoredOf = None,
    claim: Claim = False,
    renamed: Renamed = None,
    offsets_only: OffsetsOnly = False,
    state_only: StateOnly = False,
    rewind: Rewind = False,
    fresh: BeginsFresh = False,
    allow_changed_operator: AllowChangedOperator = None,
    ui: Annotated[
        bool, typer.Option("--ui", help="Serve a page beside the job: see `tidegate ui` and `ui.*`.")
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option("--log-file", metavar="FILE", help="With -d: the log file. Default: in the job's folder."),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.WARNING,
    verbose: VerboseOption = False,
    as_json: Json = False,
) -> None:
    """Run a program's job and keep it alive: after a failure it is restarted by the rules of `restart.strategy`.

    SIGTERM and Ctrl-C stop it after the current epoch; a second Ctrl-C ends it at once. An error that a restart cannot
    cure (a bad setting, a missing table, another checkpoint) ends it, and only this error is shown. Spark's output is
    in `logs/spark.log` in the job's folder, and on the screen with `--verbose`.

    Exit codes: 0 it finished or was stopped, 1 it failed, 2 the program cannot be run as it is written, 4 refused (it
    does not match the checkpoint, or would lose or repeat rows; `tidegate savepoint check` has the same code), 6 a
    decided epoch waits for a sink that was down, 130 ended at once. A program that ends successfully with its own exit
    code keeps it.

    Examples:

    - `tidegate run wordcount.py`

    - `tidegate run -d -D checkpointing.interval=1s -D restart.strategy=fixed-delay wordcount.py --since 2024`

    - `tidegate run -s /backup/savepoints/savepoint-0f1e2d3c-nightly wordcount.py`

    - `tidegate run --fresh wordcount.py`

    - `tidegate run --ui wordcount.py`

    - `tidegate run --master spark://host:7077 --conf spark.cores.max=8 wordcount.py`
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
    restore = restore_if_any(savepoint, told)
    overrides = [
        *handed_on(os.environ),
        *([] if folder is None else [f"checkpointing.dir={folder}"]),
        *(define or []),
    ]
    environment = {
        **os.environ,
        OVERRIDES_VARIABLE: json.dumps(overrides),
        **allowed_changes(allow_changed_operator),
        **(begin_fresh(savepoint) if fresh else {}),
        **(SHOWS_EVERYTHING if verbose else {}),
    }
    if restore is not None:
        environment[RESTORE_VARIABLE] = msgspec.json.encode(restore).decode()
    settings = usable_settings(environment)
    cluster = submission_of(master, deploy_mode, archives, conf)
    choice = LogChoice(log_format, log_level)
    environment.update(choice.environment())
    program = [app, *(arguments or [])]
    if deploy_mode is DeployMode.CLUSTER:
        if ui:
            raise typer.BadParameter("the driver is in the cluster: `tidegate ui --dir FOLDER` shows its job")
        shown = printed_as(as_json)
        raise typer.Exit(run_in_cluster(cluster, program, settings, environment, shown, waits=not detached))
    environment.update(cluster.environment(environment))
    if detached:
        with _page(settings, environment, wanted=ui) as page:
            _run_detached(program, settings, environment, choice, log_file, printed_as(as_json), page)
    else:
        if log_file is not None:
            raise typer.BadParameter("a log file is for -d; here the lines come to the terminal")
        with Signals() as signals, _page(settings, environment, wanted=ui) as page:
            # signals until it has shown its result: a late one changes nothing
            if page is not None:
                typer.echo(page.announced, err=True)
            ending = _supervise_here(program, settings, environment, choice, signals, printed_as(as_json), page)
            if as_json:
                print_json(msgspec.to_builtins(ending))
        raise typer.Exit(exit_of(ending))


def exit_of(ending: JobEnd) -> int:
    """The exit code of the command."""
    match ending.outcome:
        case JobOutcome.FINISHED | JobOutcome.STOPPED:
            return ending.code
        case JobOutcome.FAILED:
            return Exit.FAILED
        case JobOutcome.UNUSABLE:
            return Exit.USAGE
        case JobOutcome.REFUSED:
            return Exit.REFUSED
        case JobOutcome.PENDING:
            return Exit.PENDING
        case JobOutcome.INTERRUPTED:
            return Exit.INTERRUPTED


RUN: dict[str, Any] = {"cls": RunCommand, "context_settings": {"allow_interspersed_args": False}}
RUN_APPLICATION: dict[str, Any] = {**RUN, "hidden": True}
"""Flink's `run-application`: there is no cluster to start, so it is the same as `run`."""

_OWN = frozenset({"-D", "-d", "-h", "-s", "-n"})
_WITH_VALUE = frozenset(
    {
        "-D",
        "--dir",
        "--log-file",
        "--log-format",
        "--log-level",
        "-s",
        "--fromSavepoint",
        "--map",
        "--allow-non-restored-state-of",
        "--allow-changed-operator",
        *WITH_VALUE,
    }
)


def _refuse_a_jar(ctx: Any, args: Sequence[str]) -> None:
    at = program_at(args, _WITH_VALUE)
    if at < len(args) and args[at].endswith(".jar"):
        again = shlex.join(["tidegate", "run", *args[:at], "APP.py", *args[at + 1 :]])
        raise typer.BadParameter(f"{args[at]} is a Java program. Name the Python file: {again}", ctx=ctx)


@contextmanager
def _page(settings: Settings, environment: dict[str, str], *, wanted: bool) -> Generator[WebPage | None]:
    """The page beside the job; None if none is wanted, or possible. The program is told to open none of its own."""
    if not wanted:
        yield None
        return
    with opened_page(settings, environment) as page:
        if page is not None:
            environment[PAGE_VARIABLE] = "1"
        yield page


def _told_by(news: News, page: WebPage | None) -> News:
    return news if page is None else PageNews(news, page)


def _supervise(
    program: Sequence[str],
    settings: Settings,
    environment: Mapping[str, str],
    news: News,
    signals: Signals,
    shown: Printed,
) -> JobEnd:
    """Keep the program running until the job ends. Returns the end of the job.

    With `--json` the standard output holds only one JSON value; the program's output goes to the standard error.
    """
    output = sys.stderr.buffer if shown is Printed.JSON else None
    beside = BackgroundWarmUp(news, environment)
    try:
        return Supervisor(program, settings, environment=environment, news=beside, output=output, signals=signals).run()
    finally:
        beside.close()


def _supervise_here(
    program: Sequence[str],
    settings: Settings,
    environment: Mapping[str, str],
    choice: LogChoice,
    signals: Signals,
    shown: Printed,
    page: WebPage | None,
) -> JobEnd:
    """Keep the program running until the job ends, with the live view if this terminal supports it."""
    with open_view() as view:
        news = _told_by(Watching(news_in(choice), view), page)
        return _supervise(program, settings, {**environment, **view.environment}, news, signals, shown)


def _run_detached(
    program: Sequence[str],
    settings: Settings,
    environment: Mapping[str, str],
    choice: LogChoice,
    log_file: Path | None,
    shown: Printed,
    page: WebPage | None,
) -> None:
    """Start the supervisor in the background; return when its job runs, has failed for the first time, or has ended."""
    jobs = operate.Folder.of(settings.checkpointing_dir)
    log = log_file or operate.folder_here(jobs) / f".run-{os.getpid()}.log"

    def in_background(news: News) -> int:
        with Signals() as signals:
            told = _told_by(news, page)
            return exit_of(_supervise(program, settings, environment, told, signals, Printed.TEXT))

    started = detach(in_background, news_in(choice), log, LogHome.JOB if log_file is None else LogHome.AS_GIVEN)
    if shown is Printed.JSON:
        print_json(msgspec.to_builtins(started))
    else:
        _show(started)
    if page is not None and started.exit is None:
        typer.echo(page.announced, err=shown is Printed.JSON)
    raise typer.Exit(started.exit or Exit.OK)


def _show(started: Detached) -> None:
    if started.text:
        typer.echo(started.text, err=True)
    if started.exit is None:
        typer.echo(f"job {started.job}: process {started.process}, log {started.log}")
    else:
        typer.echo(f"log {started.log}", err=started.exit != Exit.OK)
