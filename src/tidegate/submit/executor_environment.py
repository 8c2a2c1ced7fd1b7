"""The variables of this process that the executors of a cluster need to reach storages as the driver does."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.submit.masters import Master

_PREFIX = "spark.executorEnv."

PLACES: tuple[str, ...] = (
    "HADOOP_USER_NAME",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
)
"""Each means the same on every machine. A variable that names a file or a profile does not."""

CREDENTIALS: tuple[str, ...] = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""They go to the executors of a standalone cluster. YARN writes the variables of a container into a script, expands
them there, and may keep that script with the logs: its containers get none.
"""

_REDACTION = "spark.redaction.regex"
_REDACTED = "(?i)secret|password|token|access[._]?key"
"""Spark's own default, and AWS_ACCESS_KEY_ID: Spark's page and its logs show stars for such settings."""


def executor_settings(environment: Mapping[str, str], master: Master) -> dict[str, str]:
    """Settings of a Spark session that give the executors these variables. What the user has set is meant to stay.

    Spark starts every executor with them. They are in no record and no log, and its page shows no credentials.
    """
    names = PLACES if master is Master.YARN else (*PLACES, *CREDENTIALS)
    given = {f"{_PREFIX}{name}": environment[name] for name in names if environment.get(name)}
    return {**given, _REDACTION: _REDACTED}
