"""What executors get of the driver's environment, and what Spark shows of it."""

from __future__ import annotations

import re

from tidegate.submit.executor_environment import executor_settings
from tidegate.submit.masters import Master


def test_executors_get_the_variables_of_the_storages_that_are_set() -> None:
    given = {"HADOOP_USER_NAME": "flink", "AWS_REGION": "", "AWS_PROFILE": "mine", "HOME": "/root"}
    settings = executor_settings(given, Master.STANDALONE)
    assert {name: value for name, value in settings.items() if "executorEnv" in name} == {
        "spark.executorEnv.HADOOP_USER_NAME": "flink"
    }


def test_spark_shows_no_credentials() -> None:
    given = dict.fromkeys(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"], "value")
    settings = executor_settings(given, Master.STANDALONE)
    hidden = re.compile(settings.pop("spark.redaction.regex"))
    assert len(settings) == 3
    assert all(hidden.search(name) for name in settings)


def test_containers_of_yarn_get_no_credentials() -> None:
    given = {"AWS_REGION": "here", "AWS_ACCESS_KEY_ID": "value", "AWS_SECRET_ACCESS_KEY": "value"}
    assert "value" not in executor_settings(given, Master.YARN).values()
