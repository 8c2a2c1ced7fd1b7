"""A start of a job whose generation an opener has sealed and not replaced: it continues in the next generation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from tidegate.checkpoints.job_layout import QUERIES, generation_folder
from tidegate.checkpoints.succession import demand_standing
from tidegate.checkpoints.way_back import with_way_back
from tidegate.core.errors import TidegateError, raise_all
from tidegate.core.ledger import read_finished_through
from tidegate.core.records import JobRecord, Run
from tidegate.core.recover import judge_position
from tidegate.operate.place import JobPlace
from tidegate.operate.reading import read_only
from tidegate.operate.runner import introduce
from tidegate.savepoints.continued import Continuing, last_epoch, next_after, open_continuation
from tidegate.spark.given_up import GivenUp
from tidegate.spark.job_plan import JobPlan
from tidegate.spark.levels import leaves_evidence
from tidegate.storages.opening import open_storage

_LOG = logging.getLogger("tidegate")
_FIRST = "give the program back the sinks that it had, and start the job: it commits the decided epochs"


def leave_sealed(record: JobRecord, plan: JobPlan, reach: Callable[[str], None]) -> JobRecord:
    """Finish and seal every query of this generation, and open the one that continues it. Returns the new content of
    *job.json*. Only with the job's lease held; `reach` is called at each step.

    Raises GENERATION_SEALED if another start was faster, and the errors of a start.
    """
    mode, folder = plan.settings.checkpointing_mode, plan.folder
    given_up = GivenUp(JobPlace(folder, record), plan.queries, goes_back=True, next_step=_FIRST)
    given_up.seal(mode, plan.settings.stop_timeout, reach)
    against = list(_against(record, plan))
    demand_standing(folder, record, record)  # else the evidence may be that of the next generation
    raise_all(against, f"job {record.name}, generation {record.generation}")
    token, host, process, since = introduce()
    newer = next_after(folder, record)
    run = Run(run=1, token=token, host=host, process=process, since=since)
    open_continuation(Continuing(job_folder=folder, older=record, newer=newer, run=run, reach=reach))
    _LOG.warning(
        "job %s: a restore or a fresh start has sealed generation %d and not replaced it; generation %d continues it",
        *(record.name, record.generation, newer.generation),
    )
    return newer


def _against(record: JobRecord, plan: JobPlan) -> Iterator[TidegateError]:
    """What would prevent a start of the sealed generation: evidence ahead of its last epoch, or behind it."""
    for each in plan.queries:
        ledger = open_storage(generation_folder(plan.folder / QUERIES / each.query.uid, record.generation))
        last = last_epoch(ledger)
        finished = read_only(ledger, read_finished_through())
        for uid, sink in each.sinks.items():
            if leaves_evidence(sink, plan.settings.checkpointing_mode):
                error = judge_position(each.query, uid, sink.position(each.query.sink(uid)), finished, last)
                if error is not None:
                    yield with_way_back(error, plan.folder)
