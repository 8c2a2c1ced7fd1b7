"""Word count of lines from a socket, whose state moves: from memory into RocksDB by a savepoint, then to a checkpoint.

The program names no state backend. The commands do, as with Flink. Type lines into the first terminal at any time.

    nc -lk 7777

Step 1: start it with its state in memory.

    tidegate run -d -D state.backend=hashmap examples/savepoint.py
    sqlite3 words.db 'SELECT * FROM counts'

Step 2: end it at once, with a savepoint. `tidegate stop words -p savepoints` would finish the epoch under way first.

    tidegate cancel words -s savepoints
    tidegate savepoint ls savepoints

Step 3: continue with the same counts in RocksDB.

    tidegate run -d -s savepoints/savepoint-XXXX-YYYY -D state.backend=rocksdb examples/savepoint.py

Step 4: cancel it without a savepoint, and continue from a retained checkpoint. Its backend cannot be changed.

    tidegate cancel words
    tidegate info words                                # names the retained checkpoints
    tidegate run -d -s .tidegate/words/checkpoints/N -D state.backend=rocksdb examples/savepoint.py

On YARN the same steps print the counts (--print), because tasks on other machines reach no table of SQLite:
docs/how-to/programs-on-yarn.md.

With an older checkpoint than the newest, rows are visible that come once more: `--rewind` allows it. The table has a
key, so it ends up the same.
"""

from __future__ import annotations

import argparse

from pyspark.sql import functions as F

import tidegate
from tidegate import Job, PrintSink, SocketSource, SQLiteSink


def declare(host: str, port: int, *, prints: bool) -> Job:
    """The job: how often each word has come."""
    job = Job(
        "words",
        checkpointing_interval="1s",
        checkpointing_dir=".tidegate",
        checkpointing_retained=5,  # checkpoints that step 4 can choose from
        parallelism=2,  # partitions of the counts, which the first epoch fixes. Spark's own default is 200
    )
    # A savepoint finds everything by its uid: the source, the state of the count, the query and the sink.
    lines = job.source("lines", SocketSource(host, port, durable=True))
    words = lines.select(F.explode(F.split("value", r"\s+")).alias("word")).where("word != ''")
    counts = tidegate.uid("by-word", words.groupBy("word").count())
    table = SQLiteSink("table", "words.db", table="counts", key=["word"])
    job.query("counts", counts, mode="update", sinks=[PrintSink("print") if prints else table])
    return job


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="localhost")
    parser.add_argument("--port", type=int, default=7777)
    parser.add_argument("--print", action="store_true", help="print new counts, in place of the table")
    given = parser.parse_args()
    declare(given.host, given.port, prints=given.print).run()
