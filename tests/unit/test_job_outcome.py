"""How a job has ended, decided without a job: the runs are stood in for."""

from types import SimpleNamespace
from typing import cast

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.endings import EndMode
from tidegate.spark.asked_end import AskedEnd
from tidegate.spark.draining import Draining
from tidegate.spark.figures import Figures, JobFigures
from tidegate.spark.job_outcome import OutcomeOfJob
from tidegate.spark.job_runs import JobRuns
from tidegate.spark.last_savepoint import LastSavepoint
from tidegate.spark.until import Until

UNREADY = TidegateError(Code.SINK_UNAVAILABLE, expected="a sink", found="none", where="sink", next_step="wait")
BROKEN = RuntimeError("broken")


def outcome_after(*endings: EndMode, lives: bool = False) -> OutcomeOfJob:
    """The outcome of a job that was asked to end so; with `lives` a thread of it cannot be stopped."""
    asked = AskedEnd(1.0, goes_on_draining=False)
    for ending in endings:
        asked.ask(ending, 1.0)
    run = SimpleNamespace(threads=SimpleNamespace(left_behind=None, may_still_write=lambda: lives))
    runs = SimpleNamespace(now=[run])
    return OutcomeOfJob("job", Until.ASKED, asked, Draining(None), LastSavepoint("job"), cast("JobRuns", runs))


def test_the_first_error_of_a_job_counts():
    outcome = outcome_after()
    outcome.note(BROKEN)
    outcome.note(UNREADY)
    assert (outcome.error, outcome.left_behind) == (BROKEN, None)
    assert (outcome.end_state(outcome.error), outcome.wrong(outcome.error)) == (JobState.FAILED, Wrong.OTHER)
    assert outcome.against_the_last_savepoint() is BROKEN


def test_a_cancel_leaves_an_unready_sink_to_the_next_start_and_keeps_the_checkpoints():
    outcome = outcome_after(EndMode.CANCEL)
    assert outcome.has_given_up_its_checkpoints
    outcome.note(UNREADY)
    assert (outcome.error, outcome.left_behind) == (None, UNREADY)
    assert not outcome.has_given_up_its_checkpoints
    assert outcome.end_state(outcome.error) is JobState.CANCELED


@pytest.mark.parametrize("ending", [EndMode.STOP, EndMode.CANCEL])
def test_a_job_with_a_thread_that_lives_keeps_its_checkpoints_and_takes_no_savepoint(ending: EndMode):
    outcome = outcome_after(ending, lives=True)
    assert not outcome.has_given_up_its_checkpoints
    refused = outcome.against_the_last_savepoint()
    assert isinstance(refused, TidegateError)
    assert (refused.catalogue_entry, refused.found) == (Code.SAVEPOINT_REFUSED, "a query that cannot be stopped")
    assert outcome_after(ending).against_the_last_savepoint() is None


def test_the_figures_of_a_job_tell_how_far_each_query_has_come():
    figures = JobFigures(["new", "busy"])
    figures.of["busy"] = Figures(epoch=4, finished=3)
    assert figures.under_way() == {"new": 0, "busy": 4}
    assert figures.finished() == {"new": -1, "busy": 3}
    assert (figures.has_done({"busy": 3}), figures.has_done({"busy": 4, "new": -1})) == (True, False)
