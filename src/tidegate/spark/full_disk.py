"""Distinguishes a full disk from other errors of Spark."""

from __future__ import annotations

import errno
import os

from tidegate.spark.failed_task import Executor

_FULL = ("No space left on device", "Disk quota exceeded")


def full_disk(error: BaseException) -> OSError | None:
    """The OSError of a full disk, if this error of Spark comes from one; otherwise None. Spark passes on only text, and
    the cause may be anywhere in it.
    """
    text = f"{error} {getattr(error, 'java_exception', '')}"
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if any(each in text for each in _FULL) else None


def make_space(executor: Executor | None) -> str:
    """The first words of a next step. `executor`: of the task that found the disk full; None: it ran in the driver."""
    if executor is None:
        return "make space on this machine: for checkpoints, in Spark's folder (spark.local.dir), in that of TMPDIR"
    there = f"make space on {executor.host}: in Spark's folders there"
    return f"{there} (SPARK_LOCAL_DIRS, spark.local.dir, the folder of its worker), in that of TMPDIR"
