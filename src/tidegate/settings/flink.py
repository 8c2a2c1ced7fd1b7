"""Flink's keys without a setting here: one table of answers.

It serves a key that a user sets, the import of a Flink configuration, and docs/coming-from-flink.md. Flink's keys with
a setting are in `config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegate.settings.names import folded

_FROM_SAVEPOINT = "name the savepoint for the one start that resumes from it: tidegate run -s PATH"
_CLAIM = "tidegate run -s PATH --claim; without it a savepoint is only read"
_NON_RESTORED = "tidegate run -s PATH --allow-non-restored-state"
_RESTORED = "leave it out: state is restored from checkpointing.dir"

STORAGES: Final = ("execution.checkpointing.storage", "state.checkpoint-storage")
"""Flink's keys for the storage of checkpoints."""
FILESYSTEM: Final = "filesystem"
"""Their only accepted value. It sets nothing."""
ALWAYS_FILES: Final = "leave it out: checkpoints are always files, below checkpointing.dir"

ANSWERS: Final[Mapping[str, str]] = {
    "execution.state-recovery.path": _FROM_SAVEPOINT,
    "execution.savepoint.path": _FROM_SAVEPOINT,
    "execution.state-recovery.ignore-unclaimed-state": _NON_RESTORED,
    "execution.savepoint.ignore-unclaimed-state": _NON_RESTORED,
    "execution.state-recovery.claim-mode": _CLAIM,
    "execution.savepoint-restore-mode": _CLAIM,
    **dict.fromkeys(STORAGES, ALWAYS_FILES),
    "execution.checkpointing.create-subdir": "leave it out: a job always has a folder of its own in checkpointing.dir",
    "execution.checkpointing.unaligned.forced": "leave it out: a job has no loops",
    "state.backend.local-recovery": _RESTORED,
    "execution.state-recovery.from-local": _RESTORED,
    "pipeline.max-parallelism": "leave it out: parallelism itself is fixed by the first epoch",
}
"""The alternative for each of Flink's keys."""

_NO_CLUSTER = "leave it out: tidegate has no cluster of its own; Spark computes where the program's session does"
_OF_THE_PAGE = "leave it out: the page and its REST interface have the settings `ui.*`, see `tidegate ui --help`"
_STORES = (
    "leave it out: S3 is found by AWS's variables and profiles, HDFS by HADOOP_CONF_DIR; for what else Spark reads, set"
    " spark.hadoop.* in its session"
)
_SPARKS = "leave it out: Spark's own settings of its session decide this"

FAMILIES: Final[Mapping[str, str]] = {
    "jobmanager.": _NO_CLUSTER,
    "taskmanager.": _NO_CLUSTER,
    "cluster.": _NO_CLUSTER,
    "resourcemanager.": _NO_CLUSTER,
    "slotmanager.": _NO_CLUSTER,
    "slot.": _NO_CLUSTER,
    "kubernetes.": _NO_CLUSTER,
    "yarn.": _NO_CLUSTER,
    "execution.target": _NO_CLUSTER,
    "execution.attached": "leave it out: tidegate run -d gives the terminal back",
    "high-availability": "leave it out: whatever starts `tidegate run` again keeps the job available",
    "zookeeper.": "leave it out: two locks in the job's folder keep a second driver out",
    "rest.": _OF_THE_PAGE,
    "web.": _OF_THE_PAGE,
    "historyserver.": "leave it out: `tidegate history JOB` reads the job's folder",
    "metrics.": "leave it out: a listener of the job receives everything that can be counted (docs/listeners.md)",
    "security.": "leave it out: logins are options of each source and sink, as env:NAME or file:PATH",
    "s3.": _STORES,
    "s3a.": _STORES,
    "fs.": _STORES,
    "state.backend.rocksdb.": "leave it out: set spark.sql.streaming.stateStore.rocksdb.* in Spark's session",
    "env.": "leave it out: Java's options are those of Spark's session: spark.driver.extraJavaOptions",
    "classloader.": "leave it out: jars are those of Spark's session: spark.jars",
    "io.tmp.dirs": "leave it out: Spark's folder for temporary files is spark.local.dir",
    "python.": "leave it out: Spark's workers take the Python that tidegate runs in; else set PYSPARK_PYTHON",
    "table.": _SPARKS,
    "sql-gateway.": _SPARKS,
    "execution.runtime-mode": 'leave it out: a bounded run is job.run(until="caught-up")',
    "pipeline.": _SPARKS,
}
"""The same by the prefix of a key; the first match counts."""

UNKNOWN: Final = "leave it out: no setting here has this meaning"


def answer(key: str) -> str | None:
    """The alternative for one of Flink's keys; None if the key is not in the table."""
    return _FOLDED.get(folded(key)) or next(
        (told for beginning, told in FAMILIES.items() if key.strip().startswith(beginning)), None
    )


_FOLDED = {folded(key): told for key, told in ANSWERS.items()}


def markdown_table() -> str:
    """The table for the documents. Keys with the same answer share a row."""
    keys: dict[str, list[str]] = {}
    for key, told in (*ANSWERS.items(), *((f"{beginning}*", told) for beginning, told in FAMILIES.items())):
        keys.setdefault(told, []).append(f"`{key}`")
    rows = [f"| {', '.join(named)} | {told.removeprefix('leave it out: ')} |" for told, named in keys.items()]
    return "\n".join(["| Flink's key | why it is left out, or what stands for it |", "|---|---|", *rows])
