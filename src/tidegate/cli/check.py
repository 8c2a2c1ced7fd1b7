"""`tidegate check`: one line for each requirement of a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tidegate import operate
from tidegate.cli.common import Dir, Json, jobs_folder, print_json
from tidegate.cli.exits import Exit
from tidegate.cli.log_options import SHOWS_EVERYTHING, VerboseOption
from tidegate.cli.sink_options import SinkOptions, pairs
from tidegate.cli.submission_options import ArchivesOption, ConfOption, submission_of
from tidegate.operate.status import find_job_folder
from tidegate.submit.submission import DeployMode

if TYPE_CHECKING:  # loaded at its first use: other commands do not wait for it
    from tidegate.core.health import Finding
    from tidegate.submit.submission import Submission


def check(
    app: Annotated[
        Path | None,
        typer.Argument(metavar="[APP]", exists=True, dir_okay=False, help="The program of the job to check."),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS]...", help="The program's own arguments, after `--`.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="A setting. Repeatable.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="JOB", help="Also check the sources and sinks of a job that was started before."),
    ] = None,
    kafka: Annotated[
        str | None, typer.Option("--kafka", metavar="SERVERS", help="Also check a Kafka cluster: host:port,...")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Also check the executors of this master: what they can import."),
    ] = None,
    archives: ArchivesOption = None,
    conf: ConfOption = None,
    dir: Dir = None,
    option: SinkOptions = None,
    verbose: VerboseOption = False,
    json: Json = False,
) -> None:
    """Check all requirements of a job: one line each, OK, WARN or FAILED, with the measured value.

    Checks Python, Java, Spark, settings, the storage (two writers race for one file, locks, syncs, space) and the
    clock. With `--job` also the sources and sinks of a job; with `--kafka` a cluster: whether it answers, its age,
    rights, timeouts. With `--master` the executors of a cluster: whether each has the driver's versions of Python,
    pyspark and tidegate, and every package. With a program: runs it up to the start of its job and lists all problems
    that prevent the start; nothing is written. With `--verbose` the output of Spark and Python goes to the standard
    error. Exit code 0 if nothing FAILED.

    Examples:

    - `tidegate check`

    - `tidegate check wordcount.py -D checkpointing.interval=1s`

    - `tidegate check --master spark://host:7077 wordcount.py`

    - `tidegate check --job wordcount --kafka localhost:9092 --json`
    """
    from tidegate.core.health import Health

    found: list[Finding] = []
    shown = SHOWS_EVERYTHING if verbose else {}
    cluster = submission_of(master, DeployMode.CLIENT, archives, conf)
    for finding in _findings(app, arguments or [], settings or [], job, kafka, dir, pairs(option), shown, cluster):
        found.append(finding)
        if not json:
            _show(finding)
    if json:
        print_json([msgspec.to_builtins(each) for each in found])
    if any(each.health is Health.FAILED for each in found):
        raise typer.Exit(Exit.FAILED)


def _findings(
    app: Path | None,
    arguments: list[str],
    overrides: list[str],
    job: str | None,
    kafka: str | None,
    dir: str | None,
    options: dict[str, str],
    environment: dict[str, str],
    cluster: Submission,
) -> Iterator[Finding]:
    from tidegate.core.errors import TidegateError
    from tidegate.operate.app_check import check_app
    from tidegate.operate.executor_check import check_executors
    from tidegate.operate.place import open_job
    from tidegate.operate.sink_checks import check_cluster, check_sinks
    from tidegate.operate.sources import check_sources
    from tidegate.operate.surroundings import look_at_surroundings
    from tidegate.settings.reading import read_settings

    yield from look_at_surroundings(None if dir is None else operate.Folder.of(dir), os.environ, overrides)
    if job is not None:
        place = open_job(find_job_folder(jobs_folder(dir), job))
        yield from check_sources(place.storage, options)
        yield from check_sinks(place, options)
    if kafka is not None:
        try:
            interval = read_settings({}, os.environ, overrides).checkpointing_interval
        except TidegateError:  # reported above
            interval = 0.0
        yield from check_cluster(kafka, options, interval)
    if cluster.master:
        yield from check_executors(cluster, environment)
    if app is not None:
        yield from check_app(app, arguments, overrides, {**environment, **cluster.environment(os.environ)})


def _show(finding: Finding) -> None:
    typer.echo(f"{finding.health.value:<7}{finding.what}: {finding.detail}")
    if finding.next:
        typer.echo(f"       next: {finding.next}")
