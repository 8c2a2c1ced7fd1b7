"""Looks at the Python of a session's executors, before a job relies on it."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Sequence

from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import parsed
from tidegate.extras import Extra
from tidegate.spark import on_executor
from tidegate.storages.schemes import Folder, Scheme
from tidegate.submit.executor_python import PythonThere, differences, modules_of, unfit

_LOG = logging.getLogger("tidegate")
_PATIENCE_SECONDS = 60.0
_EXTRAS = {Scheme.S3: Extra.S3, Scheme.HDFS: Extra.HDFS, Scheme.VIEWFS: Extra.HDFS}
_LOOKED_AT: set[str] = set()
"""Applications whose executors are fit: a session serves many jobs, and a start checks more than once."""


def executors_of(session: SparkSession, modules: Iterable[str]) -> list[PythonThere]:
    """The Python of each executor that took a task. Raises EXECUTOR_PYTHON if the Python of one cannot run tasks."""
    context = session.sparkContext
    cloudpickle.register_pickle_by_value(on_executor)
    tasks = max(2, context.defaultParallelism)
    waits_long = threading.Timer(_PATIENCE_SECONDS, _say_that_none_came, (str(context.master),))
    waits_long.daemon = True
    waits_long.start()
    try:
        lines = context.parallelize(range(tasks), tasks).mapPartitions(on_executor.look_at_python([*modules])).collect()
    except Py4JJavaError as error:
        reason = _reason(str(error))
        if reason is None:
            raise
        raise unfit(reason, f"spark.master = {context.master}") from None
    finally:
        waits_long.cancel()
        cloudpickle.unregister_pickle_by_value(on_executor)
    return [parsed(line.encode(), PythonThere) for line in sorted(set(lines))]


def python_here(modules: Iterable[str]) -> PythonThere:
    """The driver's."""
    return parsed(next(on_executor.look_at_python([*modules])(())).encode(), PythonThere)


def unfit_executors(session: SparkSession, folder: Folder) -> TidegateError | None:
    """The error if an executor cannot run the tasks of a job whose checkpoints are there."""
    context = session.sparkContext
    if context.applicationId in _LOOKED_AT:
        return None
    extra = _EXTRAS.get(folder.scheme)
    packages = modules_of([] if extra is None else [extra])
    here = python_here(packages)
    try:
        found = [
            (each.host, text) for each in executors_of(session, packages) for text in differences(here, each, packages)
        ]
    except TidegateError as error:
        return error
    except Py4JJavaError as error:
        _LOG.debug("the executors were not looked at: %s", error)  # an executor was lost: an epoch tries again
        return None
    if not found:
        _LOOKED_AT.add(context.applicationId)
        return None
    return unfit("; ".join(f"{host}: {text}" for host, text in found), f"spark.master = {context.master}")


def _say_that_none_came(master: str) -> None:
    _LOG.warning(
        "no executor has finished a task for %g s: see on the page of %s whether cores and memory are free, and in"
        " the executors' logs whether they reach this machine; still waiting",
        _PATIENCE_SECONDS,
        master,
    )


def _reason(text: str) -> str | None:
    """The part of a Java error that tells why Python workers do not run; None if it is another failure."""
    found = (re.search(pattern, text) for pattern in _TELLING)
    return next((each[0].strip() for each in found if each is not None), None)


_TELLING: Sequence[str] = (
    r"ModuleNotFoundError: [^\n)]*",
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*",
    r"Cannot run program [^\n]*",
)
