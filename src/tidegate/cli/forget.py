"""`tidegate forget`: removes the checkpoints of a job that does not run, so that its next start begins with empty
state.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate import operate
from tidegate.cli.common import Dir, JobName, Json, jobs_folder, print_json
from tidegate.cli.sink_options import SinkOptions, pairs
from tidegate.core.errors import Code, TidegateError

if TYPE_CHECKING:
    from tidegate.operate import Clearance


def forget(
    job: JobName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    evidence_of: Annotated[
        str | None,
        typer.Option(
            "--evidence-of",
            metavar="ID",
            help="Remove instead the evidence that the sinks store for an earlier job with this name and id. Use it if"
            " that job's folder no longer exists. The error TG-SINK-OF-ANOTHER-JOB shows the id.",
        ),
    ] = None,
    dir: Dir = None,
    option: SinkOptions = None,
    json: Json = False,
) -> None:
    """Remove the checkpoints of a job that does not run, and its data in the sinks: the next start begins anew.

    Visible rows and the job's history stay. Decided rows that are not committed yet are given up. The next start
    replays all input from the position where the program's sources begin: empty the targets first, or choose a later
    position.

    After a kill the same command completes the removal; so does the next start of the job. Exit code 4 while the job or
    its `tidegate run` is alive, and 1 if a sink is out of reach: then nothing was done.

    Examples:

    - `tidegate forget wordcount`

    - `tidegate forget wordcount --yes --json`

    - `tidegate forget wordcount --evidence-of 1c0ffee5`
    """
    forgettable = operate.open_to_forget(jobs_folder(dir), job)
    if not yes:
        _ask(job, None if evidence_of else forgettable.look(), evidence_of)
    options = pairs(option)
    found = forgettable.forget_evidence(evidence_of, options) if evidence_of else forgettable.forget(options)
    if json:
        told = {"job": found.job, "job_id": found.job_id, "outcome": "forgotten", "left": list(found.left)}
        print_json(told)
        return
    of_what = f"evidence of job id {found.job_id} in the sinks of {found.job}" if evidence_of else found.job
    typer.echo(f"{of_what} is forgotten" + ("" if evidence_of else f" (id {found.job_id})"))
    for each in found.left:
        typer.echo(f"not changed, because only the job's program can open it: {each}", err=True)


def _ask(job: str, found: Clearance | None, evidence_of: str | None) -> None:
    """Show the things to remove, and request a confirmation. Raises REQUEST_REFUSED without a terminal."""
    if not sys.stdin.isatty():
        raise TidegateError(
            Code.REQUEST_REFUSED,
            expected="a terminal to confirm at, or --yes",
            found="neither",
            where=f"tidegate forget {job}",
            next_step=f"check the job with `tidegate info {job}`; then: tidegate forget {job} --yes",
        )
    if found is None:
        typer.echo(
            f"The sinks of {job} will remove their evidence of job id {evidence_of}. If that job starts again, it is",
            err=True,
        )
        typer.echo("refused, or it repeats rows.", err=True)
    else:
        for line in _lines(found):
            typer.echo(line, err=True)
    typer.confirm("Continue?", abort=True, err=True)


def _lines(found: Clearance) -> list[str]:
    return [
        f"{found.job} (id {found.job_id}): removes its checkpoints in {found.folder}, and its evidence in the sinks:",
        *(f"  {each}" for each in found.sinks),
        *([f"{found.decided_rows} rows are decided and not committed: they are lost."] if found.decided_rows else []),
        "Visible rows stay in the targets. The next start of the job writes them again.",
    ]
