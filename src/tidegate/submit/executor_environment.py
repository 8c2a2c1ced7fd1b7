"""The variables of this process that the executors of a cluster need to reach storages as the driver does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_PREFIX = "spark.executorEnv."

HANDED_ON: tuple[str, ...] = (
    "HADOOP_USER_NAME",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)
"""Each means the same on every machine. A variable that names a file or a profile does not."""

_REDACTION = "spark.redaction.regex"
_REDACTED = "(?i)secret|password|token|access[._]?key"
"""Spark's own default, and AWS_ACCESS_KEY_ID: Spark's page and its logs show stars for such settings."""


def executor_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of a Spark session that give the executors these variables. What the user has set is meant to stay.

    Spark starts every executor with them. They are in no record and no log, and its page shows no credentials.
    """
    return {**dict(_given(environment)), _REDACTION: _REDACTED}


def _given(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in HANDED_ON:
        if environment.get(name):
            yield f"{_PREFIX}{name}", environment[name]
