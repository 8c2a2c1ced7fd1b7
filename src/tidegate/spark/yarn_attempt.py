"""A driver inside YARN: what its container says of it, and how the end of its process becomes that of its application.

YARN starts the next attempt after a failure, unless Spark's application master, which is the driver's JVM, takes leave
of it. It does so at its end after a success, and in the last attempt that `spark.yarn.maxAppAttempts` allows. It reads
that setting at its end, from its own `SparkConf`; no method of Spark's gives that object to a program. If it cannot be
reached, YARN starts another attempt, which finds that the job is given up, and ends.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark import SparkContext

from tidegate.core.errors import Code, TidegateError
from tidegate.logs.writing import LogChoice, log_failure, set_up
from tidegate.settings.found import load_settings
from tidegate.spark.program import FAILED, drive
from tidegate.spark.supervised import Supervised
from tidegate.submit.yarn_cluster import MAX_ATTEMPTS
from tidegate.supervise.application_attempt import ApplicationAttempt
from tidegate.supervise.logged_news import Logged
from tidegate.supervise.restart import strategy_of

_LOG = logging.getLogger("tidegate")

_CONTAINER = "CONTAINER_ID"
"""Set by YARN: `container_<cluster's start>_<application>_<attempt>_<container>`. A ResourceManager that has been
restarted puts its own count before them (`container_e17_...`)."""

_CONTAINER_ID = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_(\d+)_\d+")
_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster"
_ITS_OBJECT = f"{_MASTER}$"
_MANGLED = "org$apache$spark$deploy$yarn$ApplicationMaster$$"
"""Scala's prefix of what a class and its object share."""


@dataclass(frozen=True, slots=True)
class AttemptOfContainer:
    """An application of YARN, and which of its attempts a container belongs to."""

    application: str
    attempt: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> AttemptOfContainer:
        """From the variables of a container. Raises OPTION_UNKNOWN outside of one."""
        found = _CONTAINER_ID.fullmatch(environment.get(_CONTAINER, ""))
        if found is None:
            raise TidegateError(
                Code.OPTION_UNKNOWN,
                expected="to be started by Spark's application master, in a container of YARN",
                found=f"{_CONTAINER} = {environment.get(_CONTAINER)!r}",
                where="the environment",
                next_step="submit the program with `tidegate run --master yarn --deploy-mode cluster APP`",
            )
        cluster, application, attempt = found.groups()
        return cls(f"application_{cluster}_{application}", int(attempt))


def drive_in_yarn(app: str, arguments: list[str]) -> int:
    """Run the program, as the driver of the attempt of this container. Returns the exit code of this process.

    Settings that cannot be read end the application: no later attempt could read them, nor decide about the next one.
    """
    set_up(LogChoice.of(os.environ), os.environ)
    mine = AttemptOfContainer.of(os.environ)
    end = partial(end_application, mine.attempt)
    try:
        strategy = strategy_of(load_settings({}))
    except TidegateError as error:
        log_failure(error)
        end()
        return FAILED
    return drive(
        Supervised(ApplicationAttempt(mine.application, mine.attempt, strategy, Logged(), end)), app, arguments
    )


def end_application(attempt: int) -> None:
    """Let the application end with this process. YARN knows the application master once there is a session, so one is
    opened if there is none."""
    try:
        if SparkContext._active_spark_context is None:  # pyright: ignore[reportPrivateUsage]
            SparkContext.getOrCreate()
        _conf_of_the_master().set(MAX_ATTEMPTS, str(attempt))
    except Exception as error:  # noqa: BLE001 (Spark's, Java's or Py4J's: the next attempt ends at its start)
        _LOG.warning("YARN may start another driver, which ends at once: no way to the application master (%s)", error)


def _conf_of_the_master() -> Any:
    """The settings that Spark's application master reads at its end."""
    java: Any = SparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    master = _value(java, _ITS_OBJECT, f"{_MANGLED}master", None)
    return _value(java, _MASTER, f"{_MANGLED}sparkConf", master)


def _value(java: Any, of_class: str, name: str, holder: Any) -> Any:
    field = java.java.lang.Class.forName(of_class).getDeclaredField(name)
    field.setAccessible(True)
    return field.get(holder)
