"""Queries of every kind of state, each begun by one file of rows and ended by the next ones, into any sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tidegate import FileSink, FileSource, Job, KafkaSink, SQLiteSink
from tidegate.sinks.base import TwoPhaseSink

WORDS = [f"word{number:02d}" for number in range(12)]

Row = dict[str, str]


@dataclass(frozen=True)
class Kind:
    """`rows` makes the query of (at, word). `first` is what it has read at the savepoint, `later` what comes after it,
    file by file; `wanted` is everything that both give. `state`: the rows of state at the savepoint; the custom state's
    are of its variable `seen`."""

    rows: Callable[[DataFrame], DataFrame]
    first: Sequence[Row]
    later: Sequence[Sequence[Row]]
    wanted: Sequence[Mapping[str, Any]]
    state: int
    mode: Literal["append", "update"] = "append"
    variable: str | None = None


class Seen(StatefulProcessor):
    """Counts the rows of a word, until ten seconds behind its first one: then the count is told as a negative one."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        whole = pd.concat(list(rows))
        before = self.seen.get()
        if before is None:
            self.handle.registerTimer(int(whole["at"].min().timestamp() * 1000) + 10_000)
        count = (0 if before is None else int(before[0])) + len(whole)
        self.seen.update((count,))
        yield pd.DataFrame({"word": [key[0]], "n": [count]})

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        before = self.seen.get()
        count = 0 if before is None else int(before[0])
        self.seen.clear()
        yield pd.DataFrame({"word": [key[0]], "n": [-count]})

    def close(self) -> None:
        pass


def at(second: str, *words: str) -> list[Row]:
    return [{"at": f"2024-01-01T00:00:{second}Z", "word": word} for word in words]


def _windows(events: DataFrame) -> DataFrame:
    counted = events.withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds"), "word").count()
    return counted.select("word", F.date_format("window.start", "ss").alias("start"), F.col("count").alias("n"))


def _pairs(events: DataFrame) -> DataFrame:
    timed = events.withWatermark("at", "30 seconds")
    left = timed.where("word LIKE 'word%'").select("at", "word")
    right = timed.where("word LIKE 'to %'").select(F.col("at").alias("then"), F.substring("word", 4, 9).alias("same"))
    met = left.join(right, F.expr("word = same AND then > at AND then <= at + interval 20 seconds"))
    return met.select("word", F.date_format("then", "ss").alias("then"))


KINDS: Mapping[str, Kind] = {
    "stateless": Kind(
        lambda events: events.select("word"),
        at("01", *WORDS),
        [at("02", *WORDS), at("03", "late")],
        [{"word": word} for word in (*WORDS, *WORDS, "late")],
        state=0,
    ),
    "aggregation": Kind(
        _windows,
        at("01", *WORDS),
        [at("02", *WORDS), at("16", "late")],
        [{"word": word, "start": "00", "n": 2} for word in WORDS],
        state=len(WORDS),
    ),
    "join": Kind(
        _pairs,
        at("01", *WORDS),
        [at("05", *(f"to {word}" for word in WORDS)), at("06", "to nobody")],
        [{"word": word, "then": "05"} for word in WORDS],
        state=2 * len(WORDS),
    ),
    "dedup": Kind(
        # What was seen is forgotten five seconds later, at the end of an epoch.
        lambda events: events.withWatermark("at", "5 seconds").dropDuplicatesWithinWatermark(["word"]).select("word"),
        at("01", *WORDS),
        [at("02", *WORDS), at("16", "late", "late"), at("17", "later"), at("18", *WORDS)],
        [{"word": word} for word in (*WORDS, *WORDS, "late", "later")],
        state=len(WORDS),
    ),
    "custom": Kind(
        lambda events: (
            events.withWatermark("at", "5 seconds")
            .groupBy("word")
            .transformWithStateInPandas(Seen(), "word string, n long", "Update", "EventTime")
        ),
        at("01", *WORDS),
        [at("02", *WORDS), at("26", "late")],
        [*({"word": word, "n": n} for word in WORDS for n in (1, 2, -2)), {"word": "late", "n": 1}],
        state=len(WORDS),
        mode="update",
        variable="seen",
    ),
}


def job_of(
    spark: SparkSession, folder: Path, kind: str, sink: str, partitions: int, servers: str = "", topic: str = ""
) -> Job:
    """Its rows, as JSON, in a column `row`."""
    job = Job(
        "job",
        spark=spark,
        checkpointing_dir=str(folder / "checkpoints"),
        checkpointing_interval=0,
        parallelism=partitions,
    )
    source = FileSource(str(folder / "in"), format="json", schema="at timestamp, word string", maxFilesPerTrigger=1)
    rows = KINDS[kind].rows(job.source("events", source)).select(F.to_json(F.struct("*")).alias("row"))
    job.query("query", rows, mode=KINDS[kind].mode, sinks=[_sink(sink, folder, servers, topic)])
    return job


def _sink(name: str, folder: Path, servers: str, topic: str) -> TwoPhaseSink:
    match name:
        case "table":
            return SQLiteSink("out", folder / "out.db", table="rows")
        case "files":
            return FileSink("out", folder / "out", format="json")
        case _:
            return KafkaSink("out", servers, topic=topic, transactional_id_prefix=topic, transaction_timeout=60)
