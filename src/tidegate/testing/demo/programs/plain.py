"""The demo's job in plain PySpark, with files as input and output."""

from pathlib import Path

from plain_words import count_words
from pyspark.sql import DataFrame, SparkSession

from tidegate.testing.demo.child import Child

child = Child()
places = child.places

spark = SparkSession.builder.getOrCreate()
reader = spark.readStream.format("json").schema("number LONG, text STRING").option("maxFilesPerTrigger", 1)


def append(rows: DataFrame, folder: Path) -> None:
    rows.write.mode("append").json(str(folder))


count_words(
    child,
    reader.load(str(places.input)),
    write_changes=lambda rows: append(rows, places.changes),
    write_copies=lambda rows: append(rows, places.lines),
)
