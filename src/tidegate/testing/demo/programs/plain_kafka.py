"""The demo's job in plain PySpark, with Spark's own Kafka connector for input and output."""

from plain_words import count_words
from pyspark.sql import DataFrame, SparkSession

from tidegate.testing.demo.child import Child
from tidegate.testing.demo.places import Topic

child = Child()

spark = SparkSession.builder.config("spark.jars", child.jars).getOrCreate()
reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", child.servers)
reader = reader.option("subscribe", Topic.INPUT.value).option("startingOffsets", "earliest")
records = reader.option("kafka.isolation.level", "read_committed").load()


def send(rows: DataFrame, topic: Topic) -> None:
    values = rows.selectExpr("to_json(struct(*)) AS value")
    options = {"kafka.bootstrap.servers": child.servers, "topic": topic.value}
    values.write.format("kafka").options(**options).save()


count_words(
    child,
    records.selectExpr("from_json(string(value), 'number LONG, text STRING') AS line").select("line.*"),
    write_changes=lambda rows: send(rows, Topic.CHANGES),
    write_copies=lambda rows: send(rows, Topic.LINES),
)
