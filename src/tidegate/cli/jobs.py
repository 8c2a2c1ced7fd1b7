"""`tidegate list`, `info`, `history`: the status of jobs, read from their folders."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from tidegate import operate
from tidegate.cli.common import Application, Dir, JobName, JobsOfApplication, Json, jobs_folder, opened_job, print_json
from tidegate.cli.exits import Exit
from tidegate.cli.tables import Column, ago, moment, number, print_table
from tidegate.core.guarantees import Guarantee, Limit
from tidegate.operate import (
    BarriersView,
    Beat,
    DoneCheckpoint,
    Failure,
    JobHistory,
    JobInfo,
    JobView,
    QueryBeat,
    QueryView,
    State,
)

_STALE_SECONDS = 10.0
"""A driver without a report for this time is stuck, or its machine is."""


def list_jobs(
    running: Annotated[bool, typer.Option("--running", "-r", help="Only jobs that run.")] = False,
    all: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that were stopped or have finished.")] = False,
    application: JobsOfApplication = None,
    dir: Dir = None,
    json: Json = False,
) -> None:
    """List the jobs in a folder: those that run, and those that failed, died or cannot be read.

    With `-yid` these are the jobs of one application of YARN, in every folder that a driver on YARN has noted.

    Exit code 1 if a job cannot be read; the others are still listed.

    Examples:

    - `tidegate list`

    - `tidegate list -a --dir checkpoints --json`

    - `tidegate list -yid application_1767323045678_0001`
    """
    if running and all:
        raise typer.BadParameter("-r and -a exclude each other", param_hint="-r")
    folder, now = jobs_folder(dir), time.time()
    found, unread = _jobs_of(folder, application, anywhere=dir is None) if application else (operate.jobs(folder), ())
    unreadable = [job for job in found if job.problem]
    shown = [
        job for job in found if all or job.problem or (job.state.alive if running else job.state not in _ENDED_WELL)
    ]
    if json:
        print_json({"folder": str(folder), "jobs": [_job_json(job) for job in shown]})
    else:
        if shown:
            print_table(_LIST_COLUMNS, [_list_row(job, now) for job in shown])
        left_out = len(found) - len(shown)
        if left_out or not shown:
            all_of_them = "" if all else "; all: tidegate list -a"
            if application:
                all_of_them += "; a job is known there from the begin of its driver"
            typer.echo(f"{len(shown)} of {len(found)} jobs in {application or folder} are shown{all_of_them}")
        for job in unreadable:
            typer.echo(f"{job.name}: {job.problem}", err=True)
    for told in unread:
        typer.echo(f"note: {told}", err=True)
    if unreadable:
        raise typer.Exit(Exit.FAILED)


def info(job: JobName, application: Application = None, dir: Dir = None, json: Json = False) -> None:
    """Show the status of a job: its state, its driver, its queries, its sources, its settings.

    Examples:

    - `tidegate info wordcount`

    - `tidegate info wordcount --json`
    """
    found, now = opened_job(dir, job, application).info(), time.time()
    view, queries = found.job, found.queries
    if json:
        own = {"queries": [_query_json(query) for query in queries], "drained": found.drained_at}
        sources = [{"uid": each.uid, "type": each.kind, "target": each.told} for each in found.sources]
        given = {"sources": sources, "guarantees": msgspec.to_builtins(found.guarantees)}
        barriers = {} if found.barriers is None else {"barriers": msgspec.to_builtins(found.barriers)}
        print_json({**_job_json(view), **own, **given, **barriers, **_settings_json(found)})
        return
    for line in _summary(found, now):
        typer.echo(line)
    typer.echo()
    print_table(_QUERY_COLUMNS, [_query_row(query, now) for query in queries])
    if found.sources:
        typer.echo()
        print_table(_SOURCE_COLUMNS, [(each.uid, each.kind, each.told) for each in found.sources])
    if found.guarantees:
        typer.echo()
        print_table(_GUARANTEE_COLUMNS, [_guarantee_row(each) for each in found.guarantees])
    if found.barriers is not None:
        typer.echo(f"\ncheckpoint {found.barriers.number}, {found.barriers.alignment}, at {found.barriers.at}")
        if found.barriers.taken:  # one that was taken when the queries had ended has no barriers
            print_table(_BARRIER_COLUMNS, [_barrier_row(found.barriers, query) for query in found.barriers.taken])
    set_by_somebody = [] if view.beat is None else [each for each in view.beat.settings if each.origin != "default"]
    if set_by_somebody:
        typer.echo()
        print_table(_SETTING_COLUMNS, [(each.name, each.value, each.origin) for each in set_by_somebody])


def history(
    job: JobName,
    last: Annotated[int, typer.Option("--last", "-n", min=1, max=operate.ENTRIES_KEPT, help="How many, at most.")] = 20,
    dir: Dir = None,
    json: Json = False,
) -> None:
    """Show the checkpoints, the failures and the milestones of a job, newest first.

    A checkpoint is an epoch that is done in all its sinks. Milestones are starts, savepoints and ends, and kills
    that no supervisor has recorded. Kept over all restarts are the newest 10,000 checkpoints, 200 milestones, and under
    `tidegate run` or inside YARN a hundred failures.

    Examples:

    - `tidegate history wordcount`

    - `tidegate history wordcount -n 1000 --json`
    """
    found = opened_job(dir, job).history(last)
    if json:
        print_json(_history_json(found))
        return
    if found.drained_at:
        typer.echo(f"drained at {found.drained_at}: no start resumes from the newest checkpoint")
    if found.checkpoints:
        print_table(_HISTORY_COLUMNS, [_history_row(each) for each in found.checkpoints])
    else:
        typer.echo(f"no checkpoint of job {found.job.name} is done yet")
    if found.failures:
        typer.echo()
        print_table(_FAILURE_COLUMNS, [_failure_row(each) for each in found.failures])
    if found.milestones:
        typer.echo()
        rows = [(moment(each.at), each.kind.value, each.text) for each in found.milestones]
        print_table(_MILESTONE_COLUMNS, rows)


def _jobs_of(folder: operate.Folder, application: str, *, anywhere: bool) -> tuple[Sequence[JobView], Sequence[str]]:
    """The jobs of an application of YARN, and the folders that could not be read, in words."""
    if anywhere:
        found = operate.jobs_on_yarn(folder, application)
        return found.jobs, found.unread
    jobs = operate.jobs(folder)
    return [each for each in jobs if each.beat is not None and each.beat.application == application], ()


_ENDED_WELL = frozenset({State.FINISHED, State.STOPPED, State.CANCELED})
_LIST_COLUMNS = (
    Column("job"),
    Column("state"),
    Column("since"),
    Column("done"),
    Column("rows/s", number=True),
    Column("last done"),
    Column("driver"),
)
_QUERY_COLUMNS = (
    Column("query"),
    Column("from"),
    Column("into"),
    Column("epoch", number=True),
    Column("done", number=True),
    Column("rows", number=True),
    Column("rows/s", number=True),
    Column("epoch ms", number=True),
    Column("open", number=True),
    Column("last done"),
    Column("lag"),
)
_GUARANTEE_COLUMNS = (Column("sink"), Column("guarantee"), Column("limited by"), Column("why"))
_BARRIER_COLUMNS = (
    Column("query"),
    Column("took part after ms", number=True),
    Column("aligned ms", number=True),
    Column("rows held", number=True),
    Column("bytes held", number=True),
    Column("rows in flight", number=True),
)
_SOURCE_COLUMNS = (Column("source"), Column("kind"), Column("target"))
_SETTING_COLUMNS = (Column("setting"), Column("value"), Column("set by"))
_MILESTONE_COLUMNS = (Column("at"), Column("milestone"), Column("what"))
_FAILURE_COLUMNS = (
    Column("failed at"),
    Column("code"),
    Column("query"),
    Column("epoch", number=True),
    Column("run", number=True),
    Column("restart after"),
)
_HISTORY_COLUMNS = (
    Column("done at"),
    Column("query"),
    Column("epoch", number=True),
    Column("run", number=True),
    Column("ms", number=True),
    Column("rows", number=True),
    Column("aborted", number=True),
    Column("redone", number=True),
    Column("shown again", number=True),
)


def _list_row(job: JobView, now: float) -> tuple[str, ...]:
    beat = job.beat
    if beat is None:
        return (job.name, job.state.label, "-", "-", "-", "-", "-")
    done = ", ".join(f"{query.uid} {_epoch(query.finished)}" for query in beat.queries)
    rate = sum(query.rows_per_second for query in beat.queries) if job.state is State.RUNNING else None
    newest = max((query.last_done_at for query in beat.queries if query.last_done_at is not None), default=None)
    since = beat.started_at if job.state.alive else beat.at
    return (
        job.name,
        _state_text(job, now),
        moment(since),
        done,
        number(rate),
        ago(newest, now),
        f"{beat.process} on {beat.host}",
    )


def _epoch(number: int) -> str:
    """A dash if there is none yet."""
    return "-" if number < 0 else str(number)


def _state_text(job: JobView, now: float) -> str:
    silent = job.beat is not None and job.state is State.RUNNING and now - job.beat.at > _STALE_SECONDS
    return f"{job.state.label}, silent" if silent else job.state.label


_OF_ONE_MACHINE = "local-"
"""How Spark names an application that no cluster knows."""


def _summary(found: JobInfo, now: float) -> list[str]:
    view = found.job
    lines = [f"{view.name}: {_state_text(view, now)}, {view.state.meaning}", f"folder   {view.folder}"]
    if view.job_id:
        lines.append(f"id       {view.job_id}")
    if view.problem:
        lines.append(f"problem  {view.problem}")
    if view.beat is not None:
        lines.append(f"driver   {view.beat.incarnation}, since {moment(view.beat.started_at)}")
        if view.beat.application and not view.beat.application.startswith(_OF_ONE_MACHINE):
            lines.append(f"spark    {view.beat.application}")
        lines.append(f"seen     {moment(view.beat.at)}, {ago(view.beat.at, now)}")
        lines += [f"dead     {each.dead_letters} rows of {each.uid}" for each in view.beat.queries if each.dead_letters]
        if view.beat.error:
            lines.append(f"error    {view.beat.error}")
    if found.drained_at:
        lines.append(f"drained  {found.drained_at}; no start resumes from its checkpoint")
    if found.retained:
        lines.append(f"retained {', '.join(map(str, found.retained))}")
    return lines


def _guarantee_row(each: Guarantee) -> tuple[str, ...]:
    limit = each.limited_by.value if each.limited_by is Limit.NOTHING else f"{each.limited_by.value} ({each.where})"
    return (f"{each.query}/{each.sink}", each.level.value, limit, each.why)


def _barrier_row(barriers: BarriersView, query: str) -> tuple[str, ...]:
    part = barriers.taken[query]
    held = (str(part.rows_held), str(part.bytes_held))
    return (query, number(part.after_ms), number(part.aligned_ms), *held, str(part.rows_in_flight))


def _query_row(query: QueryView, now: float) -> tuple[str, ...]:
    beat = query.beat
    names = (query.uid, ", ".join(query.sources), ", ".join(query.sinks))
    if beat is None:
        return (*names, "-", _epoch(query.finished), "-", "-", "-", "-", "-", "-")
    return (
        *names,
        _epoch(beat.epoch),
        _epoch(max(beat.finished, query.finished)),
        str(beat.rows),
        number(beat.rows_per_second),
        number(beat.epoch_ms),
        str(beat.open_transactions),
        ago(beat.last_done_at, now),
        beat.lag or "-",
    )


def _history_row(each: DoneCheckpoint) -> tuple[str, ...]:
    run = "-" if each.run == 0 else str(each.run)
    figures = (number(each.duration_ms), str(each.rows), str(each.aborted), str(each.redone), str(each.shown_again))
    return (moment(each.at), each.query, str(each.epoch), run, *figures)


def _failure_row(each: Failure) -> tuple[str, ...]:
    epoch, run = ("-" if value is None else str(value) for value in (each.epoch, each.run or None))
    restart = "none" if each.restart_in_seconds is None else f"{each.restart_in_seconds:.1f} s"
    return (moment(each.at), each.code, each.query or "-", epoch, run, restart)


def _job_json(job: JobView) -> dict[str, object]:
    beat = job.beat
    return {
        "job": job.name,
        "state": job.state.label,
        "folder": job.folder,
        "job_id": job.job_id,
        "problem": job.problem,
        **({} if beat is None else _beat_json(beat)),
    }


def _beat_json(beat: Beat) -> dict[str, object]:
    return {
        "host": beat.host,
        "process": beat.process,
        "application": beat.application,
        "started_at": beat.started_at,
        "at": beat.at,
        "progress_at": beat.progress_at,
        "error": beat.error,
        "queries": [_figures_json(query) for query in beat.queries],
    }


def _query_json(query: QueryView) -> dict[str, object]:
    return {
        **({} if query.beat is None else _figures_json(query.beat)),
        "uid": query.uid,
        "generation": query.generation,
        "sources": list(query.sources),
        "sinks": list(query.sinks),
        "finished": query.finished,
    }


def _figures_json(query: QueryBeat) -> dict[str, object]:
    return {field: getattr(query, field) for field in query.__struct_fields__}


def _settings_json(found: JobInfo) -> dict[str, object]:
    return {
        "settings": {each.name: {"value": each.value, "origin": each.origin} for each in found.settings},
        "retained": list(found.retained),
    }


def _history_json(found: JobHistory) -> dict[str, object]:
    shown = {name: msgspec.to_builtins(getattr(found, name)) for name in ("checkpoints", "failures", "milestones")}
    return {"job": found.job.name, "drained": found.drained_at, **shown}
