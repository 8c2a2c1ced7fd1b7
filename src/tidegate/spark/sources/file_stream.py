"""The stream of a file source: Spark's own readers read the files that tidegate names for each epoch.

Spark creates a source from the description of files in a plan. Ours (`java/TidegateFiles.java`) asks this process where
an epoch ends and which files it has. It uses the socket over which Spark also calls Python for each epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import parsed
from tidegate.core.telling import ToldStep, told
from tidegate.logs.subject import about_all_of, subject
from tidegate.sources.files.reader import FileReader, Wait
from tidegate.spark.compiled import object_of
from tidegate.spark.telling import WORD

_LOG = logging.getLogger("tidegate")


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
    maker = object_of(jvm, leaf.getClass().getClassLoader(), "TidegateFiles")
    fields = {str(leaf.productElementName(index)): leaf.productElement(index) for index in range(leaf.productArity())}
    source = maker.source(leaf.dataSource(), frame.schema(), is_folder, ReaderCall(reader_at))
    asking = leaf.copy(*{**fields, "dataSource": source}.values())
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(classic, asking), session)


class ReaderCall:
    """Answers the questions of Spark's stream thread: a JSON object as text in, another one out.

    Errors are returned as text, because the traceback of a Python exception would overflow that thread's stack.
    """

    def __init__(self, reader_at: Callable[[str], FileReader]) -> None:
        self._reader_at = reader_at
        self._readers: dict[str, FileReader] = {}
        self._about = subject()

    def apply(self, text: str) -> str:
        with about_all_of(self._about):
            try:
                return msgspec.json.encode(self._answer(parsed(text, dict[str, Any]))).decode()
            except TidegateError as error:
                return msgspec.json.encode({"error": str(told(error, ToldStep.SOURCE, WORD))}).decode()
            except BaseException as error:  # noqa: BLE001 (Spark's thread raises it, and it ends the query)
                _LOG.debug("a file source failed", exc_info=error)
                return msgspec.json.encode({"error": f"{type(error).__name__}: {error}"}).decode()

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
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

    class Java:
        implements = ["java.util.function.Function"]  # noqa: RUF012 (Py4J's form)
