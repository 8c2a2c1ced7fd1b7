"""The error that a failed run reports, from the one that ended it."""

from __future__ import annotations

from typing import NoReturn

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import AT_THE_NEXT_START
from tidegate.spark.failed_epoch import cause_of
from tidegate.spark.jvm_output import see_the_cause
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.state.fault import state_fault
from tidegate.spark.stream_thread import StreamThread
from tidegate.spark.telling import heard_in


def fail_with(error: BaseException, plan: QueryPlan, thread: StreamThread) -> NoReturn:
    """Raise the report: the error itself if it says what to do, or else its cause in a task, in the state, or in
    Spark's query.
    """
    if isinstance(error, TidegateError):
        raise error
    said = heard_in(error)
    if said is not None:
        raise said.error from said
    # no restart helps: the checkpoint and the program's state do not match
    unfit = state_fault(thread.thrown(), str(plan.query), plan.folder, plan.operator_uids)
    if unfit is not None:
        raise unfit from error
    raise TidegateError(
        Code.QUERY_FAILED,
        expected="a query that runs",
        found=cause_of(error),
        where=str(plan.query),
        next_step=f"{see_the_cause()}, then start again: {AT_THE_NEXT_START[plan.query.weakest]}",
    ) from error
