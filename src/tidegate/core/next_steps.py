"""What the reader of an error does next: the kinds of action, and the text by the label of the error's code.

The table has a text if it is correct for every raise. A raise that knows more passes `next_step=`. A test ensures that
each text of this table occurs nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class Remedy(Enum):
    """The next action of an error's reader."""

    PROGRAM = "change the program or its settings"
    SURROUNDINGS = "repair the environment (disk, rights, server, Java), then start again"
    RESTART = "start again: nothing is lost, the last epochs are finished or run again"
    DECIDE = "decide: rows would be lost or repeated, so nothing was done"


NEXT_STEPS: Final[Mapping[str, str]] = {
    "TG-START-REFUSED": "mend each of those listed below; nothing was started",
    "TG-OPTION-UNKNOWN": "choose one of these",
    "TG-SOURCES-CHANGED": "put the source back as it was, or start under another job name or checkpointing.dir",
    "TG-DEAD-LETTERS-LIMIT": (
        "compare the rows with what the sink takes; change the query, or raise max_dead; then start again: "
        "the epoch is undecided and its input comes again"
    ),
    "TG-STORAGE-LOCAL-ONLY": "use a checkpoint folder on a local disk (checkpointing.dir)",
    "TG-STORAGE-UNSHARED": (
        "name a folder on HDFS or S3 (checkpointing.dir = hdfs://namenode:8020/jobs, s3://bucket/jobs), or run with a"
        " local master"
    ),
    "TG-EXECUTOR-PYTHON": (
        "install the same tidegate, with the same extras, in the Python of every executor, and name that Python"
        " (PYSPARK_PYTHON or spark.pyspark.python); `tidegate check --master URL` shows what is missing where"
    ),
    "TG-SINK-LOCAL-ONLY": (
        "use a sink that the executors reach (KafkaSink, FileSink on hdfs:// or s3://, your own), or a local master"
    ),
    "TG-SPARK-CONNECT": "create the session without `remote`, or run the program with spark-submit",
    "TG-TOO-MANY-FILES": "declare the job before the program opens its files, or close them, and start again",
    "TG-PROGRAM-UNREADABLE": "name the file that makes the job: tidegate run APP [ARGS]",
    "TG-JAVA-MISSING": "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME",
    "TG-KAFKA-TOPIC-MISSING": "create it, or correct the source's topics, pattern or partitions",
    "TG-BROKER-FAILED": "mend what its log names, then start it again",
    "TG-JARS-UNAVAILABLE": (
        "check version and network; where a mirror is needed, install Maven and name it in Maven's settings"
    ),
    "TG-APPLICATION-ENDED": (
        "see whether the master answers, and in its log and those of its workers why no executor began: a full disk, no"
        " such folder, too little memory; then start again"
    ),
    "TG-PROGRAM-FAILED": "mend the program at that line, where the traceback above ends, then start again",
    "TG-LEASE-LOST": (
        "start the job again (`tidegate run` does by itself) once its storage can be reached; if another driver has"
        " taken over, nothing: it continues the job"
    ),
    "TG-RUN-SUPERSEDED": "nothing: the newer run continues this query",
    "TG-GENERATION-SEALED": (
        "start the job again: it continues in its newest generation; if a restore or --fresh lost, and is still wanted,"
        " repeat that command"
    ),
    "TG-EPOCH-FINISHED": "start the job again (`tidegate run` does by itself): recovery restores Spark's log",
    "TG-EPOCH-STUCK": "end this process, then start again: until then it keeps the job's locks",
    "TG-EPOCH-TORN": (
        "start the job again (`tidegate run` does by itself): the epoch is undecided and its input comes again"
    ),
    "TG-FUNCTION-FAILED": (
        "mend the function (the log has its traceback, and `tidegate run --verbose` shows it), then start "
        "again: it is called with this epoch first"
    ),
    "TG-DRIVER-STALLED": (
        "see the end of its log; if its epochs, or the steps of its start, may take that long, raise it: "
        "-D progress_timeout=30min"
    ),
    "TG-RECORD-NEWER": "start this job with the release of tidegate that wrote it, or a newer one",
    "TG-LEVEL-CHANGED": "set checkpointing.mode back, or start under another job name or checkpointing.dir",
    "TG-LEDGER-AMBIGUOUS": (
        "go back to a savepoint, or to a retained checkpoint (tidegate run -s PATH APP); keep a copy of the "
        "job's folder as it is now: it shows what has happened"
    ),
    "TG-OFFSETS-BACKWARDS": "see whether the source was emptied, re-created or restored; start again when it is whole",
    "TG-KAFKA-TOPIC-RECREATED": "start again: the error names the record of the new topic where the job can resume",
    "TG-KAFKA-OFFSETS-LOST": (
        'they cannot come back: keep records longer, and continue after them with lost="skip", or under another'
        " job name with start="
    ),
    "TG-TRANSACTION-UNKNOWN": "look into the sink, or start the job, which commits or aborts it correctly",
    "TG-SECOND-TIMELINE": (
        "stop the other copy of this job (`tidegate stop JOB --dir DIR`, where its checkpoints are), then start again"
    ),
}
