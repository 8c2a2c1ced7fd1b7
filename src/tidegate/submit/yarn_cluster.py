"""A driver inside YARN: the command of `spark-submit`, its settings, and what it says of the application."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.machine.s3a import s3a_jars
from tidegate.machine.spark_home import spark_home
from tidegate.settings.config import Settings
from tidegate.settings.found import FILE
from tidegate.settings.given import CONFIG_VARIABLE
from tidegate.settings.kinds import RestartStrategy
from tidegate.storages.schemes import Folder, Scheme
from tidegate.submit.executor_environment import PLACES, executor_settings
from tidegate.submit.masters import Master
from tidegate.submit.submission import TOLD, Submission

MAX_ATTEMPTS = "spark.yarn.maxAppAttempts"
"""How often YARN starts the driver at most. Spark's application master reads it once more at its end."""

_MASTER_ENVIRONMENT = "spark.yarn.appMasterEnv."
_OF_TIDEGATE = "TIDEGATE_"
_PYTHON = "PYSPARK_PYTHON"
_ANY_NUMBER = "1000000"
_FIRST_FILE = Path(__file__).parents[1] / "spark" / "in_cluster.py"
_SUBMITTED = re.compile(r"Submitted application (application_\d+_\d+)")
_STATE = re.compile(r"Application report for (application_\d+_\d+) \(state: (\w+)\)")
_FINAL = re.compile(r"final status: (\w+)")


@dataclass(frozen=True, slots=True)
class ApplicationNews:
    """A line of `spark-submit` that tells something new of the application."""

    application: str = ""
    state: str = ""
    final: str = ""


def settings_of(
    submission: Submission, settings: Settings, environment: Mapping[str, str], *, waits: bool
) -> dict[str, str]:
    """Spark's settings for the application, which Spark reads from a file: no command line has them. (Spark's page of
    the application shows them, without those that it takes for secrets.)

    `environment`: that of the driver; it gets the variables of the storages, and those of tidegate. The settings file
    goes with the program (`command_of`), so its place on this machine is left out. `waits`: True if the command ends
    with the application.
    """
    conf = {name: value for name, _, value in (setting.partition("=") for setting in submission.conf)}
    own = {name: value for name, value in environment.items() if name.startswith(_OF_TIDEGATE)}
    told = {name: value for name, value in own.items() if name != CONFIG_VARIABLE or not value}
    variables = {name: environment[name] for name in PLACES if environment.get(name)}
    return {
        **executor_settings(environment, Master.YARN),
        **{f"{_MASTER_ENVIRONMENT}{name}": value for name, value in variables.items()},
        f"{_MASTER_ENVIRONMENT}{TOLD}": base64.b64encode(json.dumps(told).encode()).decode(),
        "spark.yarn.submit.waitAppCompletion": str(waits).lower(),
        **attempts_of(settings),
        **conf,
        **_jars_of(settings, conf),
    }


def _jars_of(settings: Settings, conf: Mapping[str, str]) -> dict[str, str]:
    """The jars of the storage of the checkpoints, as far as this machine knows it. They go with the program."""
    if Folder.of(settings.checkpointing_dir).scheme is not Scheme.S3:
        return {}
    jars = [*filter(None, [conf.get("spark.jars")]), *map(str, s3a_jars(conf, _say_nothing))]
    return {"spark.jars": ",".join(jars)} if jars else {}


def _say_nothing(_: str) -> None:
    """The jars are there, or an error tells that they are not."""


def attempts_of(settings: Settings) -> dict[str, str]:
    """How often YARN starts the driver: as often as the restart strategy wants, which is asked at each start.

    YARN counts the failures of the last ten seconds only, which is Flink's default for the same
    (`yarn.application-attempt-failures-validity-interval`). So its own bound, `yarn.resourcemanager.am.max-attempts`,
    holds for attempts that fail quickly, before a driver can ask. Spark's application master would end the application
    in the attempt with the number of that bound, however old the other failures are. So it is told of no bound.
    """
    if settings.restart_strategy is RestartStrategy.NONE:
        return {MAX_ATTEMPTS: "1"}
    return {
        MAX_ATTEMPTS: _ANY_NUMBER,
        "spark.hadoop.yarn.resourcemanager.am.max-attempts": _ANY_NUMBER,
        "spark.yarn.am.attemptFailuresValidityInterval": "10s",
    }


def command_of(submission: Submission, properties: str, program: Sequence[str], settings_file: str = "") -> list[str]:
    """The command that submits the program: its file goes with it, its modules go by `spark.submit.pyFiles`.

    `properties`: the file with Spark's settings. `settings_file`: that of tidegate; the driver finds it in its folder,
    under the usual name. Empty if there is none.
    """
    app, *arguments = program
    files = ",".join([app, *([f"{settings_file}#{FILE}"] if settings_file else [])])
    archives = ["--archives", submission.archives] if submission.archives else []
    where = ["--master", submission.master, "--deploy-mode", "cluster", "--name", Path(app).stem]
    known = ["--properties-file", properties, "--load-spark-defaults"]
    return [*_spark_submit(), *where, *known, *archives, "--files", files, str(_FIRST_FILE), Path(app).name, *arguments]


def environment_of(submission: Submission, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of `spark-submit`: the driver and the executors run this Python, if no other one is named."""
    names = any(each.startswith("spark.pyspark.") for each in submission.conf)
    return dict(environment) if names else {_PYTHON: sys.executable, **environment}


def news_in(lines: Iterator[str]) -> Iterator[ApplicationNews]:
    """What these lines of `spark-submit` tell, each once."""
    before: ApplicationNews | None = None
    for line in lines:
        news = _news_of(line)
        if news is not None and news != before:
            before = news
            yield news


def _news_of(line: str) -> ApplicationNews | None:
    if (submitted := _SUBMITTED.search(line)) is not None:
        return ApplicationNews(application=submitted[1])
    if (state := _STATE.search(line)) is not None:
        return ApplicationNews(application=state[1], state=state[2])
    if (final := _FINAL.search(line)) is not None and final[1] != "UNDEFINED":
        return ApplicationNews(final=final[1])
    return None


def _spark_submit() -> list[str]:
    home = spark_home(os.environ)
    return ["spark-submit" if home is None else str(home / "bin" / "spark-submit")]
