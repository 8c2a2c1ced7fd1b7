"""Word count of lines from a socket, with every setting of a checkpoint set, and what each one does here.

    nc -lk 9999                                # one terminal: type lines (or: checkpoint_config.py --feed)
    python examples/checkpoint_config.py       # another one: exactly-once, from a line's arrival on
    sqlite3 counts.db 'SELECT * FROM counts'   # a third one: what readers see, always whole epochs

Kill the job (kill -9), start it again, and go on typing: no line that had arrived is missing, and none counts twice.

    python examples/checkpoint_config.py --at-most-once      # nothing is kept, so nothing can come twice

Kill and start this one: it counts from zero again, with what is typed from then on. Its table is at-most-once.db.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import time

from pyspark.sql import functions as F

from tidegate import Job, SocketSource, SQLiteSink

COUNTS, AT_MOST_ONCE = "counts", "at-most-once"


def declare(*, at_most_once: bool) -> Job:
    """A job with everything set that can be set. Each may also stand in the environment, as TIDEGATE_<NAME>."""
    return Job(
        # The two levels are two jobs: a checkpoint never changes between them.
        AT_MOST_ONCE if at_most_once else COUNTS,
        # --- checkpoints
        # Where state, offsets, ledger and the ingest log of the socket are kept, in a folder of the job's name.
        checkpointing_dir=".tidegate",
        # The least time between two epochs. Rows become visible once an epoch. 0: as fast as possible.
        checkpointing_interval="1s",
        # What every sink gives: exactly-once, at-least-once or at-most-once.
        checkpointing_mode="at-most-once" if at_most_once else "exactly-once",
        # An epoch that is not ready after so long is cancelled, and the same lines come again: one failure.
        checkpointing_timeout="1min",
        # The least time from the end of one epoch's commits to the start of the next, for whoever shares the machine.
        checkpointing_min_pause="100ms",
        # Epochs that are decided and not yet committed, at once. With a pause between epochs it can only be 1.
        checkpointing_max_concurrent=1,
        # Failed epochs in a row before the job fails. Each is tried again, none is left out.
        checkpointing_tolerable_failures=3,
        # What becomes of the checkpoints when the job is cancelled: retain or delete. A failed job keeps them.
        checkpointing_retention="retain",
        # Checkpoints that are listed and can be gone back to. The ingest log keeps what came after the oldest.
        checkpointing_retained=3,
        # A job that ends when it has caught up runs one more epoch, for what is due at its end.
        checkpointing_after_tasks_finish=True,
        # These two act on jobs of several queries that are joined by channels, and do nothing in this one. Barriers
        # overtake rows, which only exactly-once allows, once they have been held up for so long.
        checkpointing_unaligned=not at_most_once,
        checkpointing_aligned_timeout="0" if at_most_once else "10s",
        # Where savepoints go unless a command says otherwise.
        savepoints_dir=".tidegate-savepoints",
        # --- the counts, which are the state of this job
        # rocksdb or hashmap, and how the former writes: what has changed, as a log; snapshots follow.
        state_backend="rocksdb",
        state_incremental=True,
        state_changelog=True,
        # Partitions of the state. The first epoch fixes them.
        parallelism=2,
        # --- patience
        # How long a stop waits for a sink that does not take its epoch; the next start commits it then.
        stop_timeout="1min",
        # How long a start waits for the JVM of a driver that was killed.
        lease_timeout="30s",
        # When the supervisor ends a driver that is alive and does nothing.
        progress_timeout="5min",
        # --- starting again, under the supervisor
        # none, fixed-delay, failure-rate or exponential-delay: pauses of 1 s, 2 s, 4 s, ... up to 30 s, each a tenth
        # longer or shorter at random; after 10 min without a failure the first one again.
        restart_strategy="exponential-delay",
        restart_exponential_initial="1s",
        restart_exponential_max="30s",
        restart_exponential_multiplier=2,
        restart_exponential_jitter=0.1,
        restart_exponential_reset="10min",
        restart_exponential_attempts=10,
    )


def run(host: str, port: int, *, at_most_once: bool) -> None:
    """The job: how often each word has come."""
    job = declare(at_most_once=at_most_once)
    # A socket says everything once. With durable=True each line is written to a log and synced before it counts, so an
    # epoch that is computed again finds the same lines. Without, only at-most-once can be promised.
    lines = job.source("lines", SocketSource(host, port, durable=not at_most_once))
    words = lines.select(F.explode(F.split("value", r"\s+")).alias("word")).where("word != ''")
    counts = words.groupBy("word").count()
    table = SQLiteSink("table", f"{job.name}.db", table="counts", key=["word"])
    job.query("words", counts, mode="update", sinks=[table])
    job.run()


def feed(port: int) -> None:
    """What `nc -lk` does, with lines of its own: one connection after the other, twenty lines a second."""
    words = itertools.cycle(["tide", "and", "gate", "and", "sea", "and", "sand"])
    with socket.create_server(("127.0.0.1", port)) as server:
        print(f"127.0.0.1:{port}: waiting for the job", flush=True)
        for number in itertools.count():
            with server.accept()[0] as connection:
                print(f"connection {number}", flush=True)
                try:
                    while True:
                        connection.sendall(f"{next(words)} {next(words)}\n".encode())
                        time.sleep(0.05)
                except OSError:
                    continue


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9999)
    parser.add_argument("--at-most-once", action="store_true", help="a plain socket; nothing is ever repeated")
    parser.add_argument("--feed", action="store_true", help="be the server instead of the job")
    given = parser.parse_args()
    if given.feed:
        feed(given.port)
    else:
        run(given.host, given.port, at_most_once=given.at_most_once)
