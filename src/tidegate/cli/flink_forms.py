"""Options of `flink run` and their counterparts here, so that a Flink command line gets a useful answer.

Options that name a cluster or an entry class are accepted (`cluster_options`). The options here are refused, with the
command to type.
"""

from __future__ import annotations

from collections.abc import Mapping

_TARGET = (
    "Spark computes where its master is: tidegate run --master spark://host:7077 APP.py, or spark.master in the program"
)
_CLAIM = "--claim, beside -s PATH; without it a savepoint is only read (NO_CLAIM)"

FORMS: Mapping[str, str] = {
    "-e": _TARGET,
    "--executor": _TARGET,
    "-m": _TARGET,
    "--jobmanager": _TARGET,
    "-py": "the program is named without an option: tidegate run APP.py [ARGS]",
    "--python": "the program is named without an option: tidegate run APP.py [ARGS]",
    "-pym": "name the module's file: tidegate run APP.py [ARGS]",
    "--pyModule": "name the module's file: tidegate run APP.py [ARGS]",
    "-pyfs": "put the modules beside the program, or on PYTHONPATH",
    "--pyFiles": "put the modules beside the program, or on PYTHONPATH",
    "-pyexec": "Spark's workers take the Python that tidegate runs in; else set PYSPARK_PYTHON",
    "--pyExecutable": "Spark's workers take the Python that tidegate runs in; else set PYSPARK_PYTHON",
    "-j": "there are no jars of a job: tidegate run APP.py [ARGS]",
    "--jarfile": "there are no jars of a job: tidegate run APP.py [ARGS]",
    "-C": "add jars to the program's session: spark.jars",
    "--classpath": "add jars to the program's session: spark.jars",
    "-p": "-D parallelism=N (the partitions of keyed state, fixed by the first epoch)",
    "--parallelism": "-D parallelism=N (the partitions of keyed state, fixed by the first epoch)",
    "-rm": _CLAIM,
    "--restoreMode": _CLAIM,
    "-claimMode": _CLAIM,
    "--claimMode": _CLAIM,
    "-sae": "without -d the job ends with this command anyway: Ctrl-C stops it cleanly",
    "--shutdownOnAttachedExit": "without -d the job ends with this command anyway: Ctrl-C stops it cleanly",
    "--detached": "-d",
}
"""By Flink's option. All options with the prefix `-y` share one answer: they are for YARN."""

YARN = "options of YARN are Spark's: tidegate run --master yarn --conf spark.yarn.queue=NAME APP.py"


def answer_to(option: str) -> str | None:
    """The counterpart of an option of `flink run`; None for an option that Flink does not have."""
    name = option.partition("=")[0]
    if name.startswith(("-y", "--yarn")):
        return YARN
    with_value_behind_it = None if name.startswith("--") else FORMS.get(name[:2])
    return FORMS.get(name, with_value_behind_it)
