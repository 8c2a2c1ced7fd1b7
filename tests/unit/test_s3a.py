"""What Spark's JVM gets for S3: the jars of its connector, and the settings of the connection that tidegate has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.s3 import environment, set_environment
from tidegate.core.errors import TidegateError
from tidegate.machine import s3a
from tidegate.machine.jars import Bundle
from tidegate.storages.hadoop import hadoop_settings


def no_download(bundle: Bundle, tell: object) -> Path:
    raise AssertionError(f"{bundle.title} is not to be fetched")


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(s3a, "spark_jars", lambda: tmp_path)
    monkeypatch.setattr(s3a, "fetched", no_download)
    return tmp_path


def test_the_connector_has_the_version_of_the_installed_hadoop() -> None:
    jars = s3a.spark_jars()
    assert jars is not None
    assert [each.name for each in jars.glob("hadoop-client-api-*")] == [f"hadoop-client-api-{s3a.HADOOP_VERSION}.jar"]


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.jars": "/jars/a.jar,/jars/hadoop-aws-3.4.1.jar"},
        {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"},
        {"spark.driver.extraClassPath": "/jars/hadoop-aws-3.5.0.jar"},
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_connector_that_the_user_names_is_taken(settings: dict[str, str]) -> None:
    assert s3a.s3a_jars(settings, print) == []


def test_a_connector_among_the_jars_of_spark_is_taken(spark: Path) -> None:
    (spark / "hadoop-aws-3.4.1.jar").touch()
    assert s3a.s3a_jars({}, print) == []


def test_another_hadoop_is_refused_with_the_way_out(spark: Path) -> None:
    (spark / "hadoop-client-api-3.4.1.jar").touch()
    with pytest.raises(TidegateError) as caught:
        s3a.s3a_jars({"spark.jars": "/jars/a.jar"}, print)
    assert (caught.value.code, caught.value.found) == ("TG-JARS-UNAVAILABLE", "hadoop-client-api-3.4.1.jar")
    assert "spark.jars.packages" in caught.value.next_step


def test_the_jars_are_fetched_once_and_listed(
    spark: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (spark / f"hadoop-client-api-{s3a.HADOOP_VERSION}.jar").touch()
    cache = tmp_path_factory.mktemp("cache")
    for name in ("b.jar", "a.jar", "note.txt"):
        (cache / name).touch()
    monkeypatch.setattr(s3a, "fetched", lambda bundle, tell: cache)
    assert s3a.s3a_jars({}, print) == [cache / "a.jar", cache / "b.jar"]


def test_what_is_left_out_is_left_out_of_every_module() -> None:
    for group, name, _ in s3a.S3A.modules:
        left_out = s3a.S3A.left_out_of(group, name)
        assert ("io.netty", "*") in left_out
        assert (group, name) not in left_out


PREFIX = "spark.hadoop.fs.s3a."


def test_spark_gets_the_endpoint_and_the_region_and_no_credentials() -> None:
    with set_environment({**environment("http://127.0.0.1:9000", "key-1", "word-1"), "AWS_REGION": "eu-west-1"}):
        settings = hadoop_settings("s3://bucket/jobs")
    assert settings[f"{PREFIX}endpoint"] == "http://127.0.0.1:9000"
    assert settings[f"{PREFIX}endpoint.region"] == "eu-west-1"
    assert settings[f"{PREFIX}path.style.access"] == "true"
    assert settings[f"{PREFIX}connection.ssl.enabled"] == "false"
    assert "key-1" not in str(settings)
    assert "word-1" not in str(settings)


def test_of_aws_itself_spark_gets_the_region_alone() -> None:
    wanted = {name: text for name, text in environment("", "key-1", "word-1").items() if text}
    with set_environment({**wanted, "AWS_REGION": "eu-west-1"}):
        settings = hadoop_settings("s3a://bucket/jobs")
    assert {name.removeprefix(PREFIX) for name in settings} == {"aws.credentials.provider", "endpoint.region"}


def test_an_endpoint_of_the_profile_counts(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("[profile store]\nregion = eu-west-2\nendpoint_url = https://store.example\n")
    variables = {"AWS_CONFIG_FILE": str(config), "AWS_PROFILE": "store", "AWS_ACCESS_KEY_ID": "a"}
    with set_environment({**variables, "AWS_SECRET_ACCESS_KEY": "b"}):
        settings = hadoop_settings("s3://bucket/jobs")
    assert settings[f"{PREFIX}endpoint"] == "https://store.example"
    assert settings[f"{PREFIX}endpoint.region"] == "eu-west-2"
    assert settings[f"{PREFIX}connection.ssl.enabled"] == "true"


def test_a_folder_on_a_disk_needs_no_settings(tmp_path: Path) -> None:
    assert hadoop_settings(tmp_path) == {}
