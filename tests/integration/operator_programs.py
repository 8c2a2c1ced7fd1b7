"""Programs with a stateful operator of each kind, for plans alone. Run as a program it prints their fingerprints, as
JSON by name, and under which Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pandas as pd
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.support.session import small_session
from tidegate.core.records import OperatorFingerprint
from tidegate.spark.operator_fingerprints import fingerprints_of

Program = Callable[[DataFrame], DataFrame]


def events(spark: SparkSession, delay: str = "10 seconds") -> DataFrame:
    """A stream with a watermark: at, n, m, word, more, data (a struct)."""
    rows = spark.readStream.format("rate").load()
    columns = ["timestamp as at", "value as n", "value + 1 as m", "'a' as word", "'b' as more"]
    return rows.selectExpr(*columns, "struct(value as n, 1.5 as x) as data").withWatermark("at", delay)


def running(key: Any, rows: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    state.update((sum(map(len, rows)),))
    yield pd.DataFrame({"word": [key[0]], "n": [state.get[0]]})


def mended(key: Any, rows: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    state.update((sum(map(len, rows)) + (state.get[0] if state.exists else 0),))
    yield pd.DataFrame({"word": [key[0]], "n": [state.get[0]]})


mended.__name__ = "running"


class Counter(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.n = handle.getValueState("n", "n long")
        self.seen = handle.getMapState("seen", "word string", "n int", ttlDurationMs=1000)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        yield from rows


def mended_counter() -> StatefulProcessor:
    """The same with another body."""

    def handle_input_rows(self: Any, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N803
        yield from (each.head(1) for each in rows)

    return type("Counter", (Counter,), {"handleInputRows": handle_input_rows})()


def another_counter() -> StatefulProcessor:
    """Of the same name, with another variable."""

    def init(self: Any, handle: StatefulProcessorHandle) -> None:
        self.n = handle.getValueState("total", "n long")

    return type("Counter", (Counter,), {"init": init})()


def by_hand(function: Any = running, state: str = "n long", timeout: str = GroupStateTimeout.NoTimeout) -> Program:
    schema = "word string, n long"
    return lambda rows: rows.groupBy("word").applyInPandasWithState(function, schema, state, "Update", timeout)


def custom(processor: Callable[[], StatefulProcessor] = Counter, time: str = "None", key: str = "word") -> Program:
    schema = "word string, n long"
    return lambda rows: rows.groupBy(key).transformWithStateInPandas(processor(), schema, "Update", time)


def summed(*functions: str, keys: tuple[str, ...] = ("word",)) -> Program:
    """SQL: a column of Python's needs a session."""
    return lambda rows: rows.groupBy(*map(F.expr, keys)).agg(*map(F.expr, functions or ("sum(n)",)))


def joined(
    condition: str = "word = same AND then >= at AND then <= at + interval 1 minute", how: str = "inner"
) -> Program:
    def join(rows: DataFrame) -> DataFrame:
        other = rows.select(F.col("word").alias("same"), F.col("at").alias("then"), F.col("more").alias("else"))
        return rows.join(other, F.expr(condition), how)

    return join


def distinct_in_sql(rows: DataFrame) -> DataFrame:
    rows.createOrReplaceTempView("rows_of_a_test")
    return rows.sparkSession.sql("SELECT DISTINCT word, n FROM rows_of_a_test")


def twice(rows: DataFrame) -> DataFrame:
    windows = rows.groupBy(F.window("at", "5 seconds"), "word").count()
    return windows.groupBy(F.window(F.window_time("window"), "1 minute")).agg(F.max("count"))


def with_a_python_function(rows: DataFrame) -> DataFrame:
    half = F.udf(lambda n: n // 2, "long")
    return rows.groupBy("word").agg(F.sum(half("n")))


PROGRAMS: dict[str, Program] = {
    "sum": summed(),
    "total": summed(keys=()),
    "functions": summed(
        *("count(*)", "avg(n)", "min(n)", "max(struct(n, m))", "first(n) IGNORE NULLS", "last(n)", "collect_list(n)"),
        *("collect_set(n)", "approx_count_distinct(n, 0.1)", "stddev(n)", "corr(n, m)", "max_by(n, m)", "mode(n)"),
        *("bool_and(n > 1)", "count_if(n > 1)", "percentile_approx(n, 0.5)", "count(n) FILTER (WHERE m > 1)"),
        *("sum(CAST(n AS decimal(10,2)))", "sum(n) / count(m) + 1.5", "sum(data.n)", "sum(IF(n > 1, 1, 0))"),
        *("sum(CASE WHEN n > 1 THEN 1 END)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY n DESC)", "median(n)"),
        *("skewness(n)", "max(transform(array(n, m), x -> x + 1))", "max(timestampadd(HOUR, 1, at))", "listagg(word)"),
    ),
    "python": with_a_python_function,
    "keys": summed(keys=("upper(word)", "more", "date_trunc('hour', at)", "n % 10")),
    "window": summed(keys=("window(at, '10 seconds')", "word")),
    "sliding": summed(keys=("window(at, '10 seconds', '5 seconds', '1 second')",)),
    "session": summed(keys=("session_window(at, '10 seconds')", "word")),
    "gap": summed(keys=("session_window(at, CASE WHEN n > 1 THEN '5 seconds' ELSE '1 minute' END)",)),
    "twice": twice,
    "once": lambda rows: rows.dropDuplicates(["word", "at"]),
    "distinct": lambda rows: rows.distinct(),
    "distinct-in-sql": distinct_in_sql,
    "lately": lambda rows: rows.dropDuplicatesWithinWatermark(["word"]),
    "limit": lambda rows: rows.limit(5),
    "join": joined(),
    "left": joined(how="left_outer"),
    "semi": joined(how="left_semi"),
    "by-hand": by_hand(),
    "custom": custom(),
}


def fingerprints(rows: DataFrame, program: Program, mode: str = "append") -> tuple[OperatorFingerprint, ...]:
    found = fingerprints_of(program(rows), mode, "query")
    assert found is not None
    return found


def main() -> None:
    rows = events(small_session())
    found = {name: msgspec.to_builtins(fingerprints(rows, program)) for name, program in PROGRAMS.items()}
    print(json.dumps({"spark": pyspark.__version__, "fingerprints": found}))


if __name__ == "__main__":
    main()
