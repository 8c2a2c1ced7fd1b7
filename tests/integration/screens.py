"""Mistakes as users make them: the programs, and what stands on the screen from the first line to the last.

A kind has one program or more, which run in one folder in the order in which they stand: the last one makes the
mistake, those before it what it meets. The screen is that of the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_BEGIN = """\
import os, sqlite3
from datetime import datetime
from pathlib import Path

from pyspark.sql import functions as F

from tidegate import FileSink, FileSource, Job, KafkaSource, SQLiteSink

here = Path.cwd()
Path("in").mkdir(exist_ok=True)
job = Job("KIND", checkpointing_dir=here / "checkpoints", checkpointing_interval=0)
"""
_ROWS = """\
rows = job.source("words", FileSource(here / "in", format="json", schema="word string, n int", settle=0))
table = SQLiteSink("out", here / "out.db", table="t")
"""
_END = """\
job.run(until="caught-up")
"""


@dataclass(frozen=True, slots=True)
class Screen:
    """One mistake. `programs`: each behind the lines that all have in common, without the last one, `job.run(...)`."""

    programs: tuple[str, ...]
    shown: str

    def write(self, folder: Path) -> None:
        """Its programs as `1.py`, `2.py` and so on, in a new folder, whose name is the name of the job."""
        folder.mkdir(exist_ok=True)
        begin = _BEGIN.replace("KIND", folder.name)
        for number, program in enumerate(self.programs, 1):
            rows = _ROWS if "rows" in program else ""
            (folder / f"{number}.py").write_text(begin + rows + program + _END)


_ROW_REFUSED = """\
TG-RECORD-REFUSED: a sink cannot take a row; its epoch is undecided, and every start would come to the same row again
"""

_SUMS = """\
Path("in", "NAME.json").write_text('{"word": "sea", "n": 5}\\n')
counted = rows.groupBy("word").agg(F.HOW("n").alias("n"))
table = SQLiteSink("out", here / "out.db", table="t", key="word")
job.query("counts", counted, mode="update", sinks=[table])
"""


def _sums(how: str, name: str) -> str:
    return _SUMS.replace("HOW", how).replace("NAME", name)


WITHOUT_JVM = {
    "setting": Screen(
        ('job = Job("words", checkpointing_intervall="1s")\n',),
        """\
TG-SETTING-UNKNOWN: a setting that does not exist
  expected: one of the settings that `tidegate config show` lists
  found:    checkpointing_intervall
  where:    program: checkpointing_intervall
  next:     did you mean checkpointing.interval?
""",
    ),
}
"""Found before a session is made."""

IN_ONE_SESSION = {
    "function": Screen(
        (
            """\
Path("in", "0.json").write_text('{"word": "sea", "n": 0}\\n')

@F.udf("int")
def share(n):
    return 100 // n

job.query("counts", rows.withColumn("n", share("n")), sinks=[table])
""",
        ),
        """\
TG-EPOCH-FAILED: an epoch failed before it was decided; its input comes again
  expected: epoch 0 to be computed and pre-committed
  found:    ZeroDivisionError: integer division or modulo by zero
  where:    job function, query counts, generation 1, line 18 of 1.py, in share
  next:     see Spark's log in ~/checkpoints/function/logs/spark.log, mend it and start again: nothing undecided\
 became visible, and its input comes again
""",
    ),
    "check": Screen(
        (
            """\
Path("in", "0.json").write_text('{"word": "sea", "n": -1}\\n')
with sqlite3.connect("out.db") as database:
    database.execute("CREATE TABLE t (word TEXT NOT NULL, n INTEGER CHECK (n >= 0))")
job.query("counts", rows, sinks=[table])
""",
        ),
        _ROW_REFUSED
        + """\
  expected: a row that the table's own constraints allow
  found:    CHECK constraint failed: n >= 0
  where:    sink 'out', query check/counts, epoch 0, task 0
  row:      {word: 'sea', n: -1}
  next:     change the values in select=[...], leave such rows out with where=, or give the query dead_letters=
""",
    ),
    "locked": Screen(
        (
            """\
other = sqlite3.connect("out.db", isolation_level=None)
other.execute("BEGIN EXCLUSIVE")
job.query("counts", rows, sinks=[table])
""",
        ),
        """\
TG-SINK-UNUSABLE: a sink's target cannot be opened or written
  expected: a SQLite database
  found:    database is locked
  where:    sink 'out': table 't' in ~/out.db
  next:     another program holds a lock on the database: let it end its transaction, or close it (`fuser ~/out.db`\
 names the process), then start again
""",
    ),
    "changed": Screen(
        (_sums("sum", "0"), _sums("count", "1")),
        """\
TG-OPERATOR-CHANGED: a stateful operator of the program is not the one that computed its state
  expected: operator counts/0 as its state was computed: aggregate functions: sum(n)
  found:    aggregate functions: count(n)
  where:    job changed, query counts, generation 1
  next:     put the operator back as it was; or keep its state under the new definition: tidegate run\
 --allow-changed-operator counts/0 APP; or begin with empty state: tidegate run -s SAVEPOINT --offsets-only APP
""",
    ),
    "vanished": Screen(
        (
            """\
Path("in", "0.json").write_text('{"word": "sea", "n": 5}\\n')
job.query("counts", rows.withColumn("n", F.udf(lambda n: n // 0, "int")("n")), sinks=[table])
""",
            """\
Path("in", "0.json").unlink()
job.query("counts", rows, sinks=[table])
""",
        ),
        """\
TG-FILE-LOST: a file that an epoch has to read is gone
  expected: the files of an epoch that is not done yet: 0.json
  found:    1 of them are gone
  where:    job vanished, source words
  next:     put them back as they were, with their times (cp -p); or read on without them with lost="skip"
""",
    ),
    "utf8": Screen(
        (
            """\
Path("in", "0.txt").write_bytes(b"caf\\xe9\\n")
lines = job.source("lines", FileSource(here / "in", format="text", settle=0))
job.query("words", lines, sinks=[FileSink("out", here / "out", format="json")])
""",
        ),
        _ROW_REFUSED
        + """\
  expected: text in UTF-8 in 'value'
  found:    b'caf\\xe9'
  where:    sink 'out', query utf8/words, epoch 0, task 0, column 'value'
  row:      {value: (string that Python cannot show)}
  next:     cast it to binary in select=[...], which keeps the bytes, or use invalid_text="replace"
""",
    ),
    "line": Screen(
        (
            """\
Path("in", "0.json").write_text('{"word": "sea\\\\nside", "n": 5}\\n')
job.query("lines", rows, sinks=[FileSink("out", here / "out", format="text", select=["word"])])
""",
        ),
        _ROW_REFUSED
        + """\
  expected: values of column 'word' that are one line each
  found:    a line break, or a byte order mark at its start
  where:    sink 'out', query line/lines, epoch 0, task 0, column 'word'
  row:      {word: 'sea\\nside'}
  next:     take them out with F.regexp_replace in select=[...], or write json
""",
    ),
    "zone": Screen(
        ('job.source("words", KafkaSource("localhost:9092", topics="words", start=datetime(2026, 1, 1)))\n',),
        """\
TG-SOURCE-OPTION: an option of a source has a value that does not fit
  expected: start= a datetime with its time zone
  found:    datetime.datetime(2026, 1, 1, 0, 0)
  where:    job zone, source words
  next:     from datetime import timezone, and write datetime(..., tzinfo=timezone.utc)
""",
    ),
}
"""Found in a session, which the programs can share. Spark's log is in the folder of the first one's job."""

DAMAGED = Screen(
    (
        _sums("sum", "0"),
        """\
for file in Path("checkpoints/damaged/queries/counts/g1/spark/state/0").glob("[0-9]*/1*.*"):
    file.unlink()
"""
        + _sums("sum", "1"),
    ),
    """\
job damaged: starting, checkpoints in ~/checkpoints/damaged
running
TG-STATE-DAMAGED: a file of a query's state is missing, or was altered
  expected: every file of state as it was written
  found:    CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE
  where:    job damaged, query counts, generation 1, ~/checkpoints/damaged/queries/counts/g1/spark/state/0/FILE
  next:     put the file back from a copy; or go back to a savepoint, or to a retained checkpoint in\
 ~/checkpoints/damaged/checkpoints: tidegate run -s PATH
""",
)
"""Found by a process that does not have the state in memory."""
