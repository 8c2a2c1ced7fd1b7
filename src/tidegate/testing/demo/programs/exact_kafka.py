"""The demo's job with Kafka: it reads a topic, writes word counts into a table and a topic, and copies the lines."""

from until_told import run

from tidegate import Job, KafkaSink, KafkaSource, SQLiteSink
from tidegate.testing.demo.child import Child
from tidegate.testing.demo.places import Topic

child = Child()
places, servers = child.places, child.servers

job = Job("demo")
records = job.source("input", KafkaSource(servers, topics=[Topic.INPUT.value]))
lines = records.selectExpr("from_json(string(value), 'number LONG, text STRING') AS line").select("line.*")
words = lines.selectExpr("explode(split(text, ' ')) AS word").where("word <> ''")

job.query(
    "counts",
    words.groupBy("word").count(),
    mode="update",
    sinks=[
        SQLiteSink("table", places.table, table="counts", key=["word"]),
        KafkaSink("changes", servers, topic=Topic.CHANGES.value, key="word"),
    ],
)
job.query("lines", lines, sinks=[KafkaSink("copies", servers, topic=Topic.LINES.value, key="number")])

run(job, child)
