"""The jars for a job's storage come beside the jars that the user names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.spark import jvm_jars
from tidegate.spark.jvm_jars import arguments_for
from tidegate.storages.schemes import Folder

BUCKET = Folder.of("s3://bucket/jobs")


@pytest.fixture(autouse=True)
def connector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm_jars, "s3a_jars", lambda *_: [Path("/jars/hadoop-aws.jar"), Path("/jars/s3.jar")])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("pyspark-shell", "--jars /jars/hadoop-aws.jar,/jars/s3.jar pyspark-shell"),
        (
            "--master local[2] --jars a.jar,b.jar pyspark-shell",
            "--jars /jars/hadoop-aws.jar,/jars/s3.jar,a.jar,b.jar --master 'local[2]' pyspark-shell",
        ),
        (
            "--conf spark.jars=a.jar --conf spark.ui.enabled=false pyspark-shell",
            "--jars /jars/hadoop-aws.jar,/jars/s3.jar,a.jar --conf spark.ui.enabled=false pyspark-shell",
        ),
        (
            "--jars=a.jar --conf=spark.jars=ignored.jar -c spark.jars.packages=g:a:1 pyspark-shell",
            "--jars /jars/hadoop-aws.jar,/jars/s3.jar,a.jar --conf spark.jars.packages=g:a:1 pyspark-shell",
        ),
    ],
)
def test_jars_of_the_command_line_stay(given: str, wanted: str, tmp_path: Path) -> None:
    environment = {"PYSPARK_SUBMIT_ARGS": given, "SPARK_CONF_DIR": str(tmp_path)}
    assert arguments_for(BUCKET, environment) == wanted


@pytest.mark.parametrize("line", ["spark.jars a.jar,b.jar", "spark.jars=a.jar,b.jar", "  spark.jars : a.jar,b.jar "])
def test_jars_of_the_default_settings_stay(line: str, tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"# spark.jars c.jar\nspark.jars.packages g:a:1\n{line}\n")
    wanted = "--jars /jars/hadoop-aws.jar,/jars/s3.jar,a.jar,b.jar pyspark-shell"
    assert arguments_for(BUCKET, {"SPARK_CONF_DIR": str(tmp_path)}) == wanted
    overridden = arguments_for(
        BUCKET, {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": "--jars d.jar pyspark-shell"}
    )
    assert overridden == "--jars /jars/hadoop-aws.jar,/jars/s3.jar,d.jar pyspark-shell"


def test_on_a_disk_nothing_is_added(tmp_path: Path) -> None:
    assert arguments_for(Folder.of(tmp_path), {"PYSPARK_SUBMIT_ARGS": "--jars a.jar pyspark-shell"}) is None
