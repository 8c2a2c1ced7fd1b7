"""Counts words, is stopped with a savepoint, and goes on changed: another program, other partitions, another backend.

Step 1: the first program, with its state in memory (hashmap) and in two partitions.

    python examples/savepoint.py --write 3             # three files of lines
    tidegate run -d examples/savepoint.py
    sqlite3 words.db 'SELECT * FROM counts'            # Tide is another word than tide

Step 2: it ends with a savepoint, which is a folder that may be copied anywhere.

    tidegate stop words -p savepoints --id upgrade
    tidegate savepoint ls savepoints

Step 3: the second program does not tell Tide from tide. First what would become of it, then the start itself: it goes
on with the counts that there were, in rocksdb and in four partitions, and reads no file twice.

    python examples/savepoint.py --write 3
    tidegate savepoint check examples/savepoint.py -s savepoints/savepoint-*-upgrade -- --second
    tidegate run -d -s savepoints/savepoint-*-upgrade examples/savepoint.py --second
    sqlite3 words.db 'SELECT * FROM counts'

Step 4: back to a checkpoint. The job keeps its newest five; each is a folder named by a number. Rows that came after
it are visible already, so `--rewind` has to be said: they come once more, and the table, which has a key, ends up the
same.

    tidegate stop words
    tidegate info words                                # names the retained checkpoints
    tidegate run -d -s .tidegate/words/checkpoints/N --rewind examples/savepoint.py --second
    tidegate stop words
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

from pyspark.sql import functions as F

from tidegate import FileSource, Job, SQLiteSink

FOLDER = Path("lines")
LINES = ("tide and gate", "Tide and sea", "sea and sand")


def run(*, second: bool) -> None:
    """The job, as its first or as its second program."""
    job = Job(
        "words",
        checkpointing_dir=".tidegate",
        checkpointing_interval="200ms",
        checkpointing_retained=5,
        # What a savepoint may change: the state is written again, row by row, in its new form.
        state_backend="rocksdb" if second else "hashmap",
        parallelism=4 if second else 2,
    )
    # One file an epoch, so that there are some checkpoints to look at.
    lines = job.source("lines", FileSource(str(FOLDER), format="text", maxFilesPerTrigger=1))
    words = lines.select(F.explode(F.split("value", " ")).alias("word"))
    if second:  # what is not of the state may change as you like
        words = words.select(F.lower("word").alias("word"))
    # The uids "lines", "counts" and "table" are what state, position and evidence are found by: they stay.
    table = SQLiteSink("table", "words.db", table="counts", key=["word"])
    job.query("counts", words.groupBy("word").count(), mode="update", sinks=[table])
    job.run()


def write(number: int) -> None:
    """So many files more, each with all the lines; a file appears at once, under its own name."""
    FOLDER.mkdir(exist_ok=True)
    free = (path for path in map(FOLDER.joinpath, map("{}.txt".format, itertools.count())) if not path.exists())
    for path in itertools.islice(free, number):
        hidden = path.with_name(f".{path.name}")
        hidden.write_text("".join(f"{line}\n" for line in LINES))
        hidden.rename(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--second", action="store_true", help="be the second program")
    parser.add_argument("--write", type=int, metavar="N", help="write so many files of lines, and no more")
    given = parser.parse_args()
    if given.write is None:
        FOLDER.mkdir(exist_ok=True)
        run(second=given.second)
    else:
        write(given.write)
