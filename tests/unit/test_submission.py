"""What the JVM of a driver gets of a command line that names a cluster."""

from __future__ import annotations

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.submit.executor_python import PythonThere, differences, modules_of
from tidegate.submit.submission import DeployMode, Submission, submission


def test_the_options_come_behind_those_of_the_environment_and_win() -> None:
    given = {"PYSPARK_SUBMIT_ARGS": "--driver-memory 4g pyspark-shell"}
    made = submission("spark://host:7077", DeployMode.CLIENT, "env.zip#env", ("spark.cores.max=4", "a=b c"))
    assert made.environment(given) == {
        "PYSPARK_SUBMIT_ARGS": "--driver-memory 4g --master spark://host:7077 --archives 'env.zip#env'"
        " --conf spark.cores.max=4 --conf 'a=b c' pyspark-shell"
    }


def test_without_options_nothing_changes() -> None:
    assert Submission().environment({"PYSPARK_SUBMIT_ARGS": "--name x pyspark-shell"}) == {}


@pytest.mark.parametrize(
    ("master", "mode", "conf", "where"),
    [
        ("sparc://host", DeployMode.CLIENT, (), "--master"),
        ("spark://host", DeployMode.CLIENT, ("spark.cores.max",), "--conf"),
        ("spark://host", DeployMode.CLUSTER, (), "--deploy-mode"),
    ],
)
def test_what_spark_cannot_do_is_refused(master: str, mode: DeployMode, conf: tuple[str, ...], where: str) -> None:
    with pytest.raises(TidegateError) as caught:
        submission(master, mode, None, conf)
    assert (caught.value.catalogue_entry, caught.value.where) == (Code.OPTION_UNKNOWN, where)


def test_an_executor_with_other_versions_or_without_a_package_is_named() -> None:
    here = PythonThere(host="a", python="3.11.7", executable="", versions={"pyspark": "4.3.0", "tidegate": "0.1.0"})
    same = PythonThere(host="b", python="3.11.2", executable="", versions=here.versions)
    other = PythonThere(
        host="b",
        python="3.10.1",
        executable="",
        versions={"pyspark": "4.2.0"},
        missing={"confluent_kafka": "ModuleNotFoundError"},
    )
    assert [*differences(here, same, modules_of([]))] == []
    assert [*differences(here, other, {"confluent_kafka": "confluent-kafka"})] == [
        "Python 3.10.1, and 3.11.7 at the driver",
        "no package confluent-kafka (ModuleNotFoundError)",
        "pyspark 4.2.0, and 4.3.0 at the driver",
    ]
