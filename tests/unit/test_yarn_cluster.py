"""A driver inside YARN: what it is told, how often YARN starts it, what spark-submit says of it."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.repository import ROOT
from tidegate.cli import cluster_run
from tidegate.cli.cluster_run import run_in_cluster
from tidegate.cli.common import Printed
from tidegate.settings.reading import read_settings
from tidegate.spark import in_cluster
from tidegate.submit import yarn_cluster
from tidegate.submit.submission import Submission
from tidegate.submit.yarn_cluster import ApplicationNews, attempts_of, command_of, news_in, settings_of

YARN = Submission("yarn", "env.tar.gz#environment", ("spark.yarn.queue=night",))
AS_OFTEN_AS_THE_STRATEGY_WANTS = {
    "spark.yarn.maxAppAttempts": "1000000",
    "spark.hadoop.yarn.resourcemanager.am.max-attempts": "1000000",
    "spark.yarn.am.attemptFailuresValidityInterval": "10s",
}
SAID = """\
26/11/26 12:07:01 INFO Client: Submitting application application_1_7 to ResourceManager
26/11/26 12:07:01 INFO YarnClientImpl: Submitted application application_1_7
26/11/26 12:07:02 INFO Client: Application report for application_1_7 (state: ACCEPTED)
     final status: UNDEFINED
26/11/26 12:07:03 INFO Client: Application report for application_1_7 (state: ACCEPTED)
26/11/26 12:07:09 INFO Client: Application report for application_1_7 (state: RUNNING)
26/11/26 12:08:09 INFO Client: Application report for application_1_7 (state: FINISHED)
     final status: SUCCEEDED
"""


def test_the_driver_is_told_what_the_command_was_and_no_command_line_shows_it(tmp_path: Path) -> None:
    environment = {"TIDEGATE_OVERRIDES": '["a=$b \\"c\\""]', "AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/root"}
    given = settings_of(YARN, read_settings({}, {}), environment, waits=False)
    told = given["spark.yarn.appMasterEnv.TIDEGATE_TOLD"]
    assert not set(told) & set("\"'$`\\ ")
    assert not any("AWS_SECRET_ACCESS_KEY" in name for name in given), (
        "YARN writes variables into a script that it keeps"
    )
    assert (given["spark.yarn.queue"], given["spark.yarn.submit.waitAppCompletion"]) == ("night", "false")
    command = command_of(YARN, "spark.conf", ["programs/words.py", "--since", "2024"])
    assert not any("secret" in word for word in command)
    assert command[-4:] == [in_cluster.__file__, "words.py", "--since", "2024"]
    assert command[command.index("--files") + 1] == "programs/words.py"

    script = (
        "import json, os, sys; from tidegate.spark import in_cluster;"
        "in_cluster.take_what_was_told(); print(json.dumps(dict(os.environ)))"
    )
    environment = {"TIDEGATE_TOLD": told, "PYTHONPATH": str(ROOT / "src")}
    started = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    seen = json.loads(started.stdout)
    assert (seen["TIDEGATE_OVERRIDES"], seen["XDG_STATE_HOME"]) == ('["a=$b \\"c\\""]', str(tmp_path))
    assert "TIDEGATE_TOLD" not in seen


def test_the_settings_file_of_this_machine_goes_with_the_program() -> None:
    """In the driver's folder it has the usual name. That none is to be read is told."""
    command = command_of(YARN, "/dev/fd/7", ["words.py"], "/etc/tidegate/night.toml")
    assert command[command.index("--files") + 1] == "words.py,/etc/tidegate/night.toml#tidegate.toml"
    for named, told in (("/etc/tidegate/night.toml", None), ("", "")):
        given = settings_of(YARN, read_settings({}, {}), {"TIDEGATE_CONFIG": named}, waits=False)
        seen = json.loads(base64.b64decode(given["spark.yarn.appMasterEnv.TIDEGATE_TOLD"]))
        assert seen.get("TIDEGATE_CONFIG") == told


def test_a_killed_submission_leaves_no_file_with_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `spark-submit` reads has no name on the disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "submit").write_text('#!/bin/sh\ncat "$8"\nls -A $(dirname $0)\n')
    (tmp_path / "submit").chmod(0o755)
    monkeypatch.setattr(yarn_cluster, "_spark_submit", lambda: [str(tmp_path / "submit")])
    seen: list[str] = []

    def heard(lines: Iterator[str]) -> Iterator[ApplicationNews]:
        seen.extend(lines)
        return iter(())

    monkeypatch.setattr(cluster_run, "news_in", heard)
    environment = {"TIDEGATE_CONFIG": "", "PATH": os.environ["PATH"]}
    run_in_cluster(YARN, ["words.py"], read_settings({}, {}), environment, Printed.TEXT, waits=False)
    assert seen[-1] == "submit\n"
    assert any(line.startswith("spark.yarn.queue night") for line in seen)


def test_the_jars_of_s3_go_with_a_program_whose_checkpoints_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yarn_cluster, "s3a_jars", lambda *_: [Path("cache/hadoop-aws.jar"), Path("cache/s3.jar")])
    with_jar = Submission("yarn", "", ("spark.jars=mine.jar",))

    def jars(folder: str) -> str | None:
        settings = read_settings({}, {}, [f"checkpointing.dir={folder}"])
        return settings_of(with_jar, settings, {}, waits=True)["spark.jars"]

    assert jars("s3://bucket/jobs") == "mine.jar,cache/hadoop-aws.jar,cache/s3.jar"
    assert jars("hdfs://host/jobs") == "mine.jar"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["restart.strategy=none"], {"spark.yarn.maxAppAttempts": "1"}),
        (["restart.strategy=fixed-delay", "restart.fixed_delay.attempts=4"], AS_OFTEN_AS_THE_STRATEGY_WANTS),
        ([], AS_OFTEN_AS_THE_STRATEGY_WANTS),
    ],
)
def test_yarn_starts_the_driver_as_often_as_the_restart_strategy_wants(
    overrides: list[str], expected: dict[str, str]
) -> None:
    assert attempts_of(read_settings({}, {}, overrides)) == expected


def test_the_settings_of_the_command_line_bound_the_attempts_after_all() -> None:
    mine = Submission("yarn", "", ("spark.yarn.maxAppAttempts=3",))
    assert settings_of(mine, read_settings({}, {}), {}, waits=True)["spark.yarn.maxAppAttempts"] == "3"


def test_each_new_state_of_an_application_is_told_once() -> None:
    assert list(news_in(iter(SAID.splitlines()))) == [
        ApplicationNews(application="application_1_7"),
        ApplicationNews(application="application_1_7", state="ACCEPTED"),
        ApplicationNews(application="application_1_7", state="RUNNING"),
        ApplicationNews(application="application_1_7", state="FINISHED"),
        ApplicationNews(final="SUCCEEDED"),
    ]
