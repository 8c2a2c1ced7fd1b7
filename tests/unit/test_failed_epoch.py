"""The error of a failed epoch: where in a user's own code it was raised, and on which executor."""

from __future__ import annotations

import pytest

from tidegate import __file__ as package
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query
from tidegate.core.telling import ToldStep, told
from tidegate.spark.failed_epoch import failed_epoch, line_of

SPARKS = '  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 3700, in main\n    process()\n'
OURS = f'  File "{package}", line 7, in write\n'
LIBRARYS = f'  File "{pytest.__file__}", line 3, in deep\n'


@pytest.mark.parametrize(
    ("trace", "found"),
    [
        ('  File "/jobs/app.py", line 12, in share\n    return 1 // n\n', "line 12 of /jobs/app.py, in share"),
        (f'  File "app.py", line 9, in f\n{LIBRARYS}', "line 9 of app.py, in f"),
        ('  File "<stdin>", line 1, in <lambda>\n', ""),
        ("", ""),
        (OURS, ""),
    ],
    ids=["function", "called a library", "no file", "none", "tidegate itself"],
)
def test_the_innermost_line_of_the_user_s_own_is_named(trace: str, found: str):
    text = f"Job aborted.\nTraceback (most recent call last):\n{SPARKS}{trace}ZeroDivisionError: division by zero\n"
    assert line_of(RuntimeError(text)) == found


QUERY = Query(job="words", job_id="j0", generation=1, uid="counts", sources=("lines",), sinks=("files",))
FULL = "java.io.IOException: No space left on device"


def of_a_task(place: str, reason: str) -> RuntimeError:
    """As Spark 4.3 words the error of a stage whose task has failed for good."""
    return RuntimeError(
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 10.0 failed 4 times, most"
        f" recent failure: Lost task 0.3 in stage 10.0 (TID 19) ({place}): {reason}\n\nDriver stacktrace:"
    )


def test_the_full_disk_of_an_executor_is_looked_for_there():
    error = failed_epoch(QUERY, 2, of_a_task("10.0.0.7 executor 3", FULL), None)
    assert error.catalogue_entry is Code.EPOCH_FAILED
    assert FULL in error.found
    assert error.where == "job words, query counts, generation 1, executor 3 on 10.0.0.7"
    assert error.next_step.startswith("make space on 10.0.0.7: in Spark's folders there (SPARK_LOCAL_DIRS,")
    assert error.next_step.endswith("; then start again: nothing undecided became visible, and its input comes again")


def test_the_full_disk_of_a_local_master_is_that_of_this_machine():
    error = failed_epoch(QUERY, 2, of_a_task("10.0.0.7 executor driver", FULL), None)
    assert error.where == "job words, query counts, generation 1"
    assert error.next_step.startswith("make space on this machine: for checkpoints, in Spark's folder")


def test_any_other_failure_of_a_task_names_its_executor_too():
    error = failed_epoch(QUERY, 2, of_a_task("10.0.0.7 executor 3", "java.lang.IllegalStateException: no"), None)
    assert error.where.endswith("generation 1, executor 3 on 10.0.0.7")
    assert error.next_step.startswith("see Spark's log")


def test_an_error_that_a_task_has_told_names_its_executor():
    """A path in it is one of that machine."""
    full = TidegateError(
        Code.STORAGE_FULL, expected="a place", found="no space", where="/tmp/place", next_step="make it"
    )
    said = told(full, ToldStep.WRITE, "word")
    on_a_cluster = failed_epoch(QUERY, 2, of_a_task("10.0.0.7 executor 3", str(said)), said)
    assert (on_a_cluster.catalogue_entry, on_a_cluster.where) == (
        Code.STORAGE_FULL,
        "/tmp/place, executor 3 on 10.0.0.7",
    )
    assert on_a_cluster.__cause__ is said
    assert failed_epoch(QUERY, 2, of_a_task("host executor driver", str(said)), said) is full
