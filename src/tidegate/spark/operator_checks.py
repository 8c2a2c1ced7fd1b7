"""Checks if the stateful operators of a program find their own state, before a start changes anything."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

from tidegate.checkpoints.done_epoch import newest_operator_uids
from tidegate.core.errors import TidegateError, raise_all
from tidegate.core.fingerprints import Allowed, unknown_operators
from tidegate.core.generation_start import compare_with_ledger
from tidegate.operate.reading import read_only
from tidegate.savepoints.asked_restore import ALLOWED_VARIABLE, handed_on
from tidegate.savepoints.operator_match import numbered_otherwise
from tidegate.savepoints.restored import begins_over
from tidegate.spark.job_plan import JobPlan
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.state.plan import compare_with_own_state
from tidegate.storages.opening import open_storage

_LOG = logging.getLogger("tidegate")


def allowed_changes(given: Sequence[str]) -> Allowed:
    """The operators that may differ: from the command, otherwise from the program. Raises SETTING_VALUE."""
    return handed_on(ALLOWED_VARIABLE, Allowed, "tidegate run --allow-changed-operator") or Allowed(tuple(given))


def check_operators(job: JobPlan) -> None:
    """Refuse queries that a restore renamed or dropped, operators whose state is not where Spark looks for it, and
    operators that differ from those of their state. Accepted differences must be readable for Spark, and are logged.

    Raises RESTORE_UNMATCHED, RESTORE_OPERATORS, OPERATOR_CHANGED.
    """
    plans, record = job.queries, job.record
    found = [begins_over(job.folder, record, plan.query.uid) for plan in plans if plan.query.forgetful]
    for plan in (each for each in plans if each.operator_uids):  # only these can contradict
        before = newest_operator_uids(open_storage(plan.folder))
        found.append(numbered_otherwise(before, plan.operator_uids, str(plan.query)))
    raise_all([error for error in found if error is not None], f"job {record.name}")
    compared = [read_only(open_storage(plan.folder), compare_with_ledger(plan.query)) for plan in plans]
    raise_all([error for each in compared for error in each.errors], f"job {record.name}")
    accepted = [plan for plan, each in zip(plans, compared, strict=True) if each.record and each.record.accepted]
    unreadable = [compare_with_own_state(plan.rows.sparkSession, plan) for plan in accepted]
    raise_all([error for error in unreadable if error is not None], f"job {record.name}")
    for text in (text for each in compared for text in each.told):
        _LOG.warning("job %s: %s", record.name, text)


def check_allowed(plans: Iterable[QueryPlan], allowed: Allowed, where: str) -> Iterator[TidegateError]:
    """Raise if an operator that may differ does not exist."""
    program = {plan.query.uid: plan.query.fingerprints or () for plan in plans}
    return unknown_operators(allowed, program, where)
