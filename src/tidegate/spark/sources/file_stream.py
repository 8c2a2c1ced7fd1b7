"""The stream of a file source: Spark's own readers read the files that tidegate names for each epoch.

Spark creates a source from the description of files in a plan. Ours (`java/TidegateFiles.java`) asks this process where
an epoch ends and which files it has. It uses the socket over which Spark also calls Python for each epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from tidegate.sources.files.reader import FileReader, Wait
from tidegate.spark.asked import Asked, asking_object


def stream_of(
    session: SparkSession, rows: DataFrame, reader_at: Callable[[str], FileReader], *, is_folder: bool
) -> DataFrame:
    """Replace Spark's file source in the stream `rows`, so that the readers decide which files it reads.

    `rows` reads files and nothing else. `reader_at`: returns the reader for a place, the folder that Spark gives each
    source of a query in its checkpoint. `is_folder`: the path is no pattern, and its partition folders begin below it.
    """
    frame = cast("Any", rows._jdf)  # pyright: ignore[reportPrivateUsage]
    leaf = frame.queryExecution().analyzed()
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    maker = asking_object(jvm, leaf.getClass().getClassLoader(), "TidegateFiles")
    fields = {str(leaf.productElementName(index)): leaf.productElement(index) for index in range(leaf.productArity())}
    source = maker.source(leaf.dataSource(), frame.schema(), is_folder, ReaderCall(reader_at))
    asking = leaf.copy(*{**fields, "dataSource": source}.values())
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(classic, asking), session)


class ReaderCall(Asked):
    """Answers the questions about the files of a stream. Each place has its own reader."""

    def __init__(self, reader_at: Callable[[str], FileReader]) -> None:
        super().__init__()
        self._reader_at = reader_at
        self._readers: dict[str, FileReader] = {}

    def answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        place = asked["place"]
        if place not in self._readers:
            self._readers[place] = self._reader_at(place)
        reader = self._readers[place]
        match asked["what"]:
            case "catch_up":
                reader.catch_up()
                return {}
            case "latest":
                found = reader.latest(asked["start"])
                return {"pause_ms": int(found.seconds * 1000)} if isinstance(found, Wait) else {"position": found}
            case "batch":
                return {"paths": reader.batch(asked["start"], asked["end"])}
            case _:
                reader.found([(path, size, milliseconds) for path, size, milliseconds in asked["found"]])
                return {}
