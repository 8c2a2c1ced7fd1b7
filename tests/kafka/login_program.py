"""A topic into a topic, by users that log in: first by one who may not do all of it, then by one who may.

The only argument is a file that says where everything is; the passwords are in the environment and in a file.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.support.session import small_session
from tidegate import Job, KafkaSink, KafkaSource
from tidegate.core.errors import TidegateError


def main(given: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("py4j").setLevel(logging.INFO)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = small_session(spark_driver_extraJavaOptions=f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {given['logging']}")
    told: dict[str, Any] = {}
    try:
        job_of(spark, given, given["poor"]).run(until="caught-up")
    except TidegateError as error:
        told["refused"] = [each.expected for each in error.violations or (error,)]
    told["left"] = sorted(str(path.name) for path in Path(given["checkpoints"]).rglob("*") if path.is_file())
    job_of(spark, given, given["writer"]).run(until="caught-up")
    Path(given["told"]).write_text(json.dumps(told))


def job_of(spark: SparkSession, given: dict[str, Any], writer: dict[str, str]) -> Job:
    job = Job("job", spark=spark, checkpointing_dir=given["checkpoints"], checkpointing_interval=0)
    source = KafkaSource(given["servers"], topics=[given["topic"]], options=given["reader"], max_rows=200)
    rows = job.source("lines", source)
    sink = KafkaSink("topic", given["tls"], topic=given["target"], format="raw", options=writer, transaction_timeout=60)
    job.query("copy", rows.select("value"), sinks=[sink])
    return job


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
