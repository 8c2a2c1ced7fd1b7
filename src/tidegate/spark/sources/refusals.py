"""Errors that several sources share and that only Spark makes possible."""

from __future__ import annotations

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.sources.base import Begins, Replay
from tidegate.spark.sources.formats import FORMATS


def not_replayable(found: str, where: str, level: Level) -> TidegateError:
    """The error for a source that cannot be read again, in a job whose level requires that."""
    return TidegateError(
        Code.SOURCE_NOT_REPLAYABLE,
        expected=f"one of {_those_with(Replay.EXACT)}, or a source that declares Replay.EXACT",
        found=f"{found}, in a job that is {level.value}",
        where=where,
        next_step="keep its rows in the ingest log: job.source(uid, source, durable=True) (a socket:"
        " SocketSource(host, port, durable=True)); pass SparkSource(format, replayable=True) if it gives the same rows"
        " again for the same offsets; or set checkpointing.mode to at-most-once",
    )


def not_newest(found: str, where: str) -> TidegateError:
    """The error for a source that cannot begin after its newest row, in an at-most-once job."""
    return TidegateError(
        Code.SOURCE_NOT_NEWEST,
        expected=f"one of {_those_with(Begins.EITHER, Begins.NEWEST)}, or FileSource(...), or a source that declares"
        " Begins.EITHER or Begins.NEWEST",
        found=found,
        where=where,
        next_step="use one of these, or another checkpointing.mode",
    )


def outside_a_job(where: str, next_step: str = "write it with job.query(...)") -> TidegateError:
    """The error for a source that a streaming query outside the job reads."""
    return TidegateError(
        Code.SOURCE_OPTION,
        expected="a query of the job, whose ledger says where the source begins",
        found="another streaming query",
        where=where,
        next_step=next_step,
    )


def unfit_option(expected: str, found: str, where: str, next_step: str = "") -> TidegateError:
    """The error for an argument of a source with a value that does not fit. `next_step`: empty for "give ..."."""
    return TidegateError(
        Code.SOURCE_OPTION, expected=expected, found=found, where=where, next_step=next_step or f"give {expected}"
    )


def refused_by_spark(expected: str, error: Exception, where: str, next_step: str) -> TidegateError:
    """The error for a source that Spark does not open. The first line of its error is enough."""
    found = str(error).strip().split("\n")[0]
    return TidegateError(Code.SOURCE_REFUSED, expected=expected, found=found, where=where, next_step=next_step)


def left_to_spark(expected: str, found: str, where: str, source: str) -> TidegateError:
    """The error for input that only a `SparkSource` reads. `source`: its arguments, and what else helps."""
    return TidegateError(
        Code.SOURCE_REFUSED, expected=expected, found=found, where=where, next_step=f"read it with {source}"
    )


def not_local(master: str, what: str, where: str, next_step: str) -> TidegateError:
    """The error for input on the driver's disk under a cluster master: the tasks cannot see that disk."""
    return TidegateError(
        Code.SOURCE_LOCAL_ONLY,
        expected=f"a local master: the tasks read {what} from this machine's disk",
        found=f"master {master}",
        where=where,
        next_step=next_step,
    )


FILES_ELSEWHERE = "run this job with master local[*], or read the rows through Kafka, or files on HDFS or S3"
CHECKPOINTS_ELSEWHERE = (
    "set checkpointing.dir to a folder on HDFS or S3: the ingest log is in it, and every task reads it"
)


def _those_with(*traits: Replay | Begins) -> str:
    return ", ".join(name for name, each in FORMATS.items() if {each.traits.replay, each.traits.begins} & set(traits))
