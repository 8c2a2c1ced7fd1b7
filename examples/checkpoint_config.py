"""Word count of lines from a socket, with the checkpoint settings of a Flink program, and what each of them does here.

    nc -lk 7777                                # one terminal: type lines
    python examples/checkpoint_config.py       # another one: prints the new counts, every 5 seconds

Kill the job (kill -9), start it again, and type more: it continues with its counts. No line that had arrived is
missing, and none counts twice. A terminal keeps no record of what it has shown: an epoch that was being printed at the
kill is printed again.

With the checkpoints on HDFS, as its user NAME; then inside of YARN (docs/how-to/programs-on-yarn.md):

    tidegate run --dir hdfs://HOST:PORT/chk examples/checkpoint_config.py --user NAME
    tidegate run-application -d -t yarn-application --dir hdfs://HOST:PORT/chk -D savepoints.dir=hdfs://HOST:PORT/sp \\
        examples/checkpoint_config.py --host HOST
"""

from __future__ import annotations

import argparse
import os

from pyspark.sql import functions as F

from tidegate import Job, PrintSink, SocketSource


def declare(host: str, port: int) -> Job:
    """The job: how often each word has come."""
    job = Job(
        "counts",
        # An epoch every 5 seconds: the lines since the last one, a checkpoint, then the new counts are printed.
        checkpointing_interval="5s",
        # Each line that has arrived is in the counts once, whatever is killed when.
        checkpointing_mode="exactly-once",
        # Where checkpoints are: state, positions, ledger and the log of arrived lines, below .tidegate/counts. On a
        # cluster it is a folder that every machine reaches; a command names it: --dir hdfs://HOST:PORT/chk
        checkpointing_dir=".tidegate",
        # An epoch that takes longer is cut off, counts as a failure, and the same lines are computed again.
        checkpointing_timeout="60s",
        # At most one epoch is under way. With the pause below no other number would be possible.
        checkpointing_max_concurrent=1,
        # From the end of an epoch to the start of the next one. An epoch that takes 4.5 s makes the next one late.
        checkpointing_min_pause="1s",
        # `tidegate cancel counts` leaves the checkpoints, and the next start continues. With "delete" it would begin
        # anew. The checkpoints of a job that fails stay with both.
        checkpointing_retention="retain",
        # So many checkpoints can be gone back to: tidegate run -s .tidegate/counts/checkpoints/N. The log of arrived
        # lines keeps what came after the oldest of them.
        checkpointing_retained=3,
        # 10 failed epochs in a row are computed again; the 11th failure ends the job. 0: the first one does.
        checkpointing_tolerable_failures=10,
        # Barriers overtake rows after 1 s. This job has one query, where no barrier waits for another one, so these
        # two change nothing in it. Allowed with exactly-once and one epoch at a time.
        checkpointing_unaligned=True,
        checkpointing_aligned_timeout="1s",
        # Only a job that ends by itself has finished tasks. A socket never ends, so this changes nothing here.
        checkpointing_after_tasks_finish=True,
        # The counts are kept in RocksDB. A checkpoint writes what has changed since the one before, as a log of
        # changes; snapshots of the whole state follow in the background.
        state_backend="rocksdb",
        state_incremental=True,
        state_changelog=True,
        # One partition of the counts, which the first epoch fixes.
        parallelism=1,
        # `tidegate savepoint counts`, `stop counts -p` and `cancel counts -s` write here, unless a folder is named.
        # With this setting a plain `tidegate stop counts` takes a savepoint, too.
        savepoints_dir=".tidegate-savepoints",
        # While the job runs, a page at http://127.0.0.1:8081 shows its graph and each checkpoint. It needs
        # pip install 'tidegate[ui]'. Where it cannot be opened, the job warns and runs.
        ui=True,
    )
    # A socket says everything once. With durable=True each line is written to a log before it counts, so an epoch that
    # is computed again finds the same lines.
    lines = job.source("lines", SocketSource(host, port, durable=True))
    words = lines.select(F.explode(F.split("value", r"\s+")).alias("word")).where("word != ''")
    job.query("words", words.groupBy("word").count(), mode="update", sinks=[PrintSink("print")])
    return job


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=7777)
    parser.add_argument("--user", help="the name by which HDFS knows the job, if HADOOP_USER_NAME is not set")
    given = parser.parse_args()
    if given.user:
        os.environ.setdefault("HADOOP_USER_NAME", given.user)
    declare(given.host, given.port).run()
