"""A start that opens a new, empty generation of its job: `tidegate run --fresh`, `job.run(fresh=ID)`."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tidegate.checkpoints.drained import DrainRecord
from tidegate.checkpoints.succession import demand_standing
from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, Run
from tidegate.core.recover import judge_position
from tidegate.operate.place import JobPlace
from tidegate.operate.runner import introduce
from tidegate.savepoints.asked_restore import FRESH_VARIABLE, RESTORE_VARIABLE, handed_on
from tidegate.savepoints.fresh import Fresh, Opening, highest_generation, open_empty, was_opened
from tidegate.savepoints.restoring import Restore
from tidegate.settings.config import Settings
from tidegate.spark.declared import program_error
from tidegate.spark.given_up import GivenUp
from tidegate.spark.levels import leaves_evidence
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.refusals import begins_anew, rest_was_shown
from tidegate.spark.supervised import start_moves
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")


def wished(savepoint: Restore | str | os.PathLike[str] | None, fresh: str | None, where: str) -> Restore | Fresh | None:
    """The point from which this start resumes: from the options of `tidegate run`, otherwise from the program."""
    restore = handed_on(RESTORE_VARIABLE, Restore, "tidegate run -s")
    if restore is not None:
        return restore
    empty = handed_on(FRESH_VARIABLE, Fresh, "tidegate run --fresh")
    if empty is not None:
        return empty
    if fresh is not None:
        if savepoint is not None or not fresh:
            found = f"fresh={fresh!r}, savepoint={savepoint!r}"
            raise program_error(Code.OPTION_UNKNOWN, "a savepoint, or an id for a fresh generation", found, where)
        return Fresh(fresh)
    return savepoint if savepoint is None or isinstance(savepoint, Restore) else Restore(os.fspath(savepoint))


def fresh_target(
    fresh: Fresh, job_folder: Folder, name: str, found: JobRecord | None, level: Level
) -> JobRecord | None:
    """The new *job.json*; None if the job has already opened a generation under this id, and resumes in it.

    Raises LEVEL_REFUSED for a job that opens a generation at every start, JOB_DRAINED for a drained job.
    """
    if level is Level.AT_MOST_ONCE:
        raise begins_anew(Code.LEVEL_REFUSED, name, "start without --fresh, or choose another level")
    if found is None:
        number = highest_generation(job_folder) + 1
        return JobRecord(name=name, job_id=secrets.token_hex(4), generation=number)
    if was_opened(job_folder, found, fresh):
        _LOG.warning(
            "job %s: generation %d was opened as a fresh one before; this start resumes in it", name, found.generation
        )
        return None
    drain = DrainRecord(job_folder, found.job_id).read()
    if drain is not None:
        instead = f"tidegate forget {name}, then start it without --fresh; or use another job name"
        raise rest_was_shown(drain, str(job_folder), instead)
    number = max(found.generation, highest_generation(job_folder)) + 1
    return msgspec.structs.replace(found, generation=number)


def above_evidence(target: JobRecord, plans: Sequence[QueryPlan], level: Level) -> JobRecord:
    """`target`, with its generation raised above every generation of this job that the sinks hold evidence of. The job
    may have used another folder before.
    """
    positions = [
        sink.position(plan.query.sink(uid))
        for plan in plans
        for uid, sink in plan.sinks.items()
        if leaves_evidence(sink, level)
    ]
    mine = [each.generation for each in positions if each is not None and each.job_id == target.job_id]
    return msgspec.structs.replace(target, generation=max([target.generation, *(number + 1 for number in mine)]))


def carry_out(
    fresh: Fresh,
    target: JobRecord,
    found: JobRecord | None,
    job_folder: Folder,
    plans: Sequence[QueryPlan],
    settings: Settings,
    reach: Callable[[str], None],
) -> None:
    """Finish the decided epochs of the older generation, and off a disk seal it; then open the new one. Only with the
    job's locks held. `reach` is called at each step.

    After an error the job is unchanged, except that decided epochs may have been committed.
    """
    where = f"job {target.name}, a fresh generation"
    given_up = None
    if found is not None:
        given_up = GivenUp(JobPlace(job_folder, found), plans, goes_back=True, next_step=_FIRST)
        raise_all(list(given_up.against({plan.query.uid for plan in plans})), where)
    against = list(_against(plans, settings.checkpointing_mode))
    demand_standing(job_folder, found, target)  # else the evidence may be that of a job that has begun meanwhile
    raise_all(against, where)
    if given_up is not None:
        given_up.finish(settings.checkpointing_mode, settings.stop_timeout)
        given_up.seal(settings.checkpointing_mode, settings.stop_timeout, reach)
    token, host, process, since = introduce()
    opening = Opening(
        job_folder=job_folder,
        record=target,
        older=found,
        fresh=fresh,
        starts={plan.query.uid: plan.query.start(first_epoch=0) for plan in plans},
        run=Run(run=1, token=token, host=host, process=process, since=since),
        reach=reach,
    )
    open_empty(opening)
    start_moves("a fresh generation, opened")
    _LOG.warning("job %s: generation %d begins anew, with empty state", target.name, target.generation)


_FIRST = "start the job once without --fresh: it commits decided epochs and aborts the rest; or see `tidegate txn ls`"


def _against(plans: Sequence[QueryPlan], level: Level) -> Iterator[TidegateError]:
    """Raise for evidence of another job in a sink, which would prevent every start of the new generation."""
    for plan in plans:
        for uid, sink in plan.sinks.items():
            if leaves_evidence(sink, level):
                position = sink.position(plan.query.sink(uid))
                if position is not None and position.job_id != plan.query.job_id:
                    error = judge_position(plan.query, uid, position, None, -1)
                    if error is not None:
                        yield error
