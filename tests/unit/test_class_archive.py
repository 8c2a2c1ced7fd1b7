"""Which archive of Spark's classes a JVM is given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.machine.class_archive import archive_file, archive_to_use


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """A Java and a Spark of two jars, and a cache."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for name in ("a.jar", "b.jar"):
        (tmp_path / "spark" / "jars" / name).write_bytes(b"classes")
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    spark, java_home, cache = (str(tmp_path / name) for name in ("spark", "java", "cache"))
    return {"SPARK_HOME": spark, "JAVA_HOME": java_home, "XDG_CACHE_HOME": cache}


@pytest.fixture(autouse=True)
def _as_the_process_has_it(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def made(environment: Mapping[str, str]) -> Path:
    archive = archive_file(environment)
    archive.parent.mkdir(parents=True)
    archive.touch()
    return archive


def test_there_is_none_until_it_is_made(environment: Mapping[str, str]):
    assert archive_to_use(environment) is None
    archive = made(environment)
    assert archive_to_use(environment) == archive
    assert archive.parent == Path(environment["XDG_CACHE_HOME"], "tidegate")


@pytest.mark.parametrize("changed", ["spark/jars/a.jar", "java/bin/java"])
def test_another_spark_and_another_java_have_one_of_their_own(
    environment: Mapping[str, str], tmp_path: Path, changed: str
):
    made(environment)
    os.utime(tmp_path / changed, (1, 1))
    assert archive_to_use(environment) is None


def test_a_jar_more_makes_it_another_spark(environment: Mapping[str, str], tmp_path: Path):
    made(environment)
    (tmp_path / "spark" / "jars" / "c.jar").touch()
    assert archive_to_use(environment) is None


@pytest.mark.parametrize("name", ["SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_who_names_an_archive_in_the_environment_has_it_his_way(environment: Mapping[str, str], name: str):
    made(environment)
    assert archive_to_use({**environment, name: "-Xmx1g"}) is not None
    assert archive_to_use({**environment, name: "-Xmx1g -XX:SharedArchiveFile=/mine.jsa"}) is None


def test_a_spark_without_jars_has_none(environment: Mapping[str, str], tmp_path: Path):
    (tmp_path / "spark" / "jars").rename(tmp_path / "elsewhere")
    assert archive_to_use(environment) is None


def test_without_java_the_error_says_so(environment: Mapping[str, str], tmp_path: Path):
    (tmp_path / "java" / "bin" / "java").unlink()
    with pytest.raises(TidegateError) as raised:
        archive_to_use(environment)
    assert raised.value.code == "TG-JAVA-MISSING"
