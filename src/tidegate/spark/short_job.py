"""The input and the counts of the short jobs that tidegate runs for itself: the warm-up, the rehearsal of a standby."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SCHEMA = "word string, number long"
ROWS = "".join(f'{{"word": "w{number % 7}", "number": {number}}}\n' for number in range(100))
"""The contents of one JSON file of input."""


def counts_of(lines: DataFrame) -> DataFrame:
    """The number of rows of each word, and its last number."""
    return lines.groupBy("word").agg(F.count("*").alias("count"), F.max("number").alias("last"))
