"""The demo's job with tidegate: it writes word counts into a table and into files of changes, and copies the lines."""

from until_told import run

from tidegate import FileSink, FileSource, Job, SQLiteSink
from tidegate.testing.demo.child import Child

child = Child()
places = child.places

job = Job("demo")
rows = FileSource(str(places.input), format="json", schema="number LONG, text STRING", maxFilesPerTrigger=1)
lines = job.source("input", rows)
words = lines.selectExpr("explode(split(text, ' ')) AS word").where("word <> ''")

job.query(
    "counts",
    words.groupBy("word").count(),
    mode="update",
    sinks=[
        SQLiteSink("table", places.table, table="counts", key=["word"]),
        FileSink("changes", places.changes, format="json"),
    ],
)
copies = FileSink("copies", places.lines, format="json")
if child.poisoned:
    table = SQLiteSink("numbered", places.numbered, table="lines")
    refused = FileSink("refused", places.dead_letters, format="json")
    job.query("lines", lines, sinks=[copies, table], dead_letters=refused, max_dead=1)
else:
    job.query("lines", lines, sinks=[copies])

run(job, child)
