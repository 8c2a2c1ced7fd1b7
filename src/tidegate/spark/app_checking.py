"""The check of a program by `tidegate check app.py` and `tidegate savepoint check`: the errors that prevent a start."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import NoReturn

import msgspec

from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.operate.app_check import CHECK_ONLY, CHECKED, NOTED
from tidegate.savepoints.asked_restore import SAYS, Said
from tidegate.savepoints.folder import verify
from tidegate.savepoints.fresh import Fresh
from tidegate.savepoints.judgement import RestoreVerdict
from tidegate.savepoints.restoring import Restore
from tidegate.sinks.staging import unwritable
from tidegate.spark.advice import operators_without_uid
from tidegate.spark.draining import drain_of
from tidegate.spark.guarantees import say_guarantees
from tidegate.spark.job_plan import DeclaredJob, JobPlan
from tidegate.spark.job_sources import JobSources
from tidegate.spark.opens import Opens
from tidegate.spark.operator_checks import check_operators
from tidegate.spark.planning import plan_job
from tidegate.spark.restore_judged import given_up_by, judged
from tidegate.spark.restoring import JobRestore, open_restore
from tidegate.spark.start_checks import check_start
from tidegate.spark.starting import job_guarantees, recorded
from tidegate.spark.until import Until
from tidegate.storages.leases import driver_or_engine_lives
from tidegate.storages.refusals import job_runs


def only_checks() -> bool:
    """True if this program was started only for a check."""
    return os.environ.get(CHECK_ONLY) == "1"


def check_only(job: DeclaredJob, wish: Restore | Fresh | None, *, until: Until) -> NoReturn:
    """Raise the errors that prevent the start, or end the program. Writes nothing."""
    flaw = unwritable(job.folder.local()) if job.folder.is_local else None
    if flaw is not None:
        raise TidegateError(
            Code.STORAGE_UNUSABLE,
            expected="a folder for the job's checkpoints that can be written",
            found=flaw,
            where=str(job.folder),
            next_step="give this user the right to write there, or name another checkpointing.dir",
        )
    mode = job.settings.checkpointing_mode
    with ExitStack() as stack:
        record = recorded(job)
        wish = None if isinstance(wish, Fresh) else wish
        restore = open_restore(wish, job.folder, job.name, mode, stack, Opens.CHECK)
        sources = JobSources(job, stack, until=until, opens=Opens.CHECK, restore=restore)
        if restore is None:
            drain_of(job.folder, record, mode, until=until)
        plan = plan_job(job, record if restore is None else restore.target, sources)
        check_start(plan)
        if restore is None:
            check_operators(plan)
        for text in operators_without_uid(plan.queries, job.uids):
            print(f"{NOTED}{text}", file=sys.stderr, flush=True)
        if wish is not None:
            _say_verdict(restore, plan)
    say_guarantees(job_guarantees(job))
    print(f"{CHECKED}{job.name}", file=sys.stderr, flush=True)
    sys.exit(0)


def _say_verdict(restore: JobRestore | None, plan: JobPlan) -> None:
    """Report the verdict of a restore on the standard error, for `tidegate savepoint check`. Reads every file.

    Raises the errors of the restore.
    """
    if restore is None:
        _say(
            Said(
                verdict=RestoreVerdict.OK.value,
                changes=("the job was opened from it before, and resumes from its newest checkpoint",),
            )
        )
        return
    alone = not driver_or_engine_lives(restore.job_folder)
    found = judged(restore, plan, given_up_by(restore, plan) if alone else None)
    errors = [*found.errors, *verify(restore.savepoint), *([] if alone else [_runs(restore)])]
    # Both report unmatched names.
    different = list({(error.code, error.found, error.where): error for error in errors}.values())
    epochs = {uid: saved.done.epoch for uid, saved in found.matched.items()}
    verdict = replace(found, errors=tuple(different)).verdict
    # An impossible restore changes nothing, so no changes are reported.
    _say(Said(verdict=verdict.value, changes=() if different else found.changes, epochs=epochs))
    raise_all(different, f"job {restore.target.name}, savepoint {restore.savepoint.found_at}")


def _say(said: Said) -> None:
    print(f"{SAYS}{msgspec.json.encode(said).decode()}", file=sys.stderr, flush=True)


def _runs(restore: JobRestore) -> TidegateError:
    stop = f"`tidegate stop {restore.target.name}`, then start it again with the savepoint"
    return job_runs("another generation of it can begin", str(restore.job_folder), stop)
