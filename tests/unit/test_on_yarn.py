"""Commands look for jobs in the folders that are noted, also where Hadoop names no place for the notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.folders import make_job
from tidegate import operate
from tidegate.core.errors import TidegateError

_CORE_SITE = "<configuration><property><name>fs.defaultFS</name><value>gs://bucket</value></property></configuration>"
APPLICATION = "application_1767323045678_0001"


@pytest.fixture(autouse=True, params=[_CORE_SITE, "<configuration>", ""])
def hadoop(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file system without a storage of tidegate, a file that is broken, and none."""
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    if request.param:
        (tmp_path / "core-site.xml").write_text(request.param)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return request.param


@pytest.mark.parametrize(("job", "application"), [("0f1e2d3c", ""), ("words", APPLICATION)])
def test_a_job_that_is_nowhere_is_unknown_whatever_hadoop_says(
    hadoop: str, tmp_path: Path, job: str, application: str
) -> None:
    with pytest.raises(TidegateError) as raised:
        operate.open_anywhere(tmp_path / "jobs", job, application)
    assert raised.value.code == "TG-JOB-UNKNOWN"
    assert ("no notes" in raised.value.found) is bool(hadoop and application)


def test_jobs_of_the_settings_are_found_whatever_hadoop_says(tmp_path: Path) -> None:
    make_job(tmp_path / "jobs", "words")
    assert operate.open_anywhere(tmp_path / "jobs", "words", APPLICATION).name == "words"
    assert operate.jobs_on_yarn(tmp_path / "jobs", APPLICATION).jobs == ()
