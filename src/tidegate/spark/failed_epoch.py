"""The error of a failed epoch, and its consequences, from a task's report or from Spark's text."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

from pyspark.errors import PySparkException

from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query
from tidegate.core.levels import AT_THE_NEXT_START
from tidegate.core.telling import ToldError, ToldStep
from tidegate.disk.durable import is_of_a_failed_sync
from tidegate.spark.failed_task import Executor, executor_of
from tidegate.spark.full_disk import full_disk, make_space
from tidegate.spark.jvm_output import see_the_cause
from tidegate.supervise.cures import Cure, cure_of


def failed_epoch(query: Query, epoch: int, error: BaseException, said: ToldError | None) -> TidegateError:
    """The error of an epoch that ended with `error`. One that a task has reported is the same, with its executor."""
    if isinstance(error, TidegateError):
        return error
    executor = executor_of(error)
    if said is not None and said.error.catalogue_entry is not Code.EPOCH_FAILED:
        failed = said.error if executor is None else _placed(said.error, executor)
    else:
        first = f"{see_the_cause()}, mend it and" if full_disk(error) is None else f"{make_space(executor)}; then"
        place = [str(query), line_of(error)] if said is None else [said.error.where]
        failed = TidegateError(
            Code.EPOCH_FAILED,
            expected=f"epoch {epoch} to be computed and pre-committed",
            found=cause_of(error) if said is None else said.error.found,
            where=", ".join(filter(None, [*place, "" if executor is None else str(executor)])),
            next_step=f"{first} start again: {AT_THE_NEXT_START[query.weakest]}",
            details=None if said is None else said.error.details,
        )
    failed.__cause__ = said or error
    return failed


def _placed(error: TidegateError, executor: Executor) -> TidegateError:
    return TidegateError(
        error.catalogue_entry,
        expected=error.expected,
        found=error.found,
        where=f"{error.where}, {executor}",
        next_step=error.next_step,
        details=error.details,
        violations=error.violations,
    )


def is_of_a_sink(said: ToldError | None) -> bool:
    """True if the epoch failed in a sink or a journal, after its rows were computed."""
    return said is not None and said.step in (ToldStep.WRITE, ToldStep.PRE_COMMIT)


def may_pre_commit_yet(said: ToldError | None) -> bool:
    """True if the epoch failed in a pre-commit, and another run of the epoch may succeed.

    False if the rows themselves are refused. False after a failed sync: data of this run may be lost, for example the
    name of a new folder. A second sync would succeed, so the next run would treat the lost data as durable. `said`: the
    error as a task reported it; None if no task did.
    """
    if said is None or said.step is not ToldStep.PRE_COMMIT or is_of_a_failed_sync(said):
        return False
    return cure_of([said.error.catalogue_entry]) is not Cure.NONE


def cause_of(error: BaseException) -> str:
    """The most useful line of an error: the Python exception inside Spark's, if there is one."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    inner = [line for line in lines if _PYTHON_EXCEPTION.match(line)]
    first = lines[0] if lines else ""
    if isinstance(error, PySparkException) and _SAID_OF_A_DEAD_PROCESS.fullmatch(first):
        return (
            f"a Python process of Spark's, perhaps a source's, ended without a word: killed, or out of memory ({first})"
        )
    return (inner[-1] if inner else f"{type(error).__name__}: {first}")[:500]


def line_of(error: BaseException) -> str:
    """The line of the user's own code that raised the exception inside Spark's; empty if unknown."""
    frames: list[tuple[str, str, str]] = _FRAME.findall(str(error))
    own = [frame for frame in frames if not frame[0].startswith(_LIBRARIES) and "/pyspark.zip/" not in frame[0]]
    return "line {1} of {0}, in {2}".format(*own[-1]) if own else ""


_FRAME = re.compile(r'^ *File "([^"<>]+\.py)", line (\d+), in (\S+)', re.MULTILINE)
"""A line of a Python traceback for code in a file."""

_OURS = str(Path(__file__).parents[1])
_LIBRARIES = tuple(f"{path}/" for path in (_OURS, *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))))

_SAID_OF_A_DEAD_PROCESS = re.compile(
    r"(null|None|Connection reset|Broken pipe|java\.io\.EOFException|\[STREAM_FAILED\].*\(no cause message\))?"
)
"""The text of an error after the process at the other end of a socket has died."""


_PYTHON_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Exit|Interrupt): ")
