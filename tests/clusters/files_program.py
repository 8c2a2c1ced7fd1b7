"""Words of files into files, counted, on a cluster: the session is that of SPARK_CONF_DIR.

Argument: the folder of the checkpoints. The input and the output are beside it.
"""

from __future__ import annotations

import sys

from tidegate import FileSink, FileSource, Job


def main(checkpoints: str) -> None:
    job = Job("words", checkpointing_dir=checkpoints, checkpointing_interval=0, lease_timeout="240s", parallelism=2)
    lines = job.source("lines", FileSource(f"{checkpoints}-in", format="text", max_files=1, settle=0))
    counts = lines.repartition(2).groupBy("value").count()
    job.query("counts", counts, sinks=[FileSink("files", f"{checkpoints}-out", format="json")], mode="update")
    job.run(until="caught-up")


if __name__ == "__main__":
    main(*sys.argv[1:])
