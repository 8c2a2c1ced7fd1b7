"""What of a program is in the fingerprint of its stateful operators, and what is not. Plans alone: nothing runs."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from tests.integration import operator_programs
from tests.integration.operator_programs import (
    PROGRAMS,
    Program,
    another_counter,
    by_hand,
    custom,
    events,
    fingerprints,
    joined,
    mended,
    mended_counter,
    running,
    summed,
)
from tidegate.core.fingerprints import NOTHING_ALLOWED, Comparison, FingerprintPart, compare_at_start
from tidegate.core.records import OperatorFingerprint

ROOT = Path(__file__).parents[2]
SPARK_4_2 = Path(sys.prefix) / "spark-4.2"


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return events(spark)


def compared(before: tuple[OperatorFingerprint, ...], now: tuple[OperatorFingerprint, ...]) -> Comparison:
    return compare_at_start("query", before, now, has_state=True, allowed=NOTHING_ALLOWED, where="job")


def collected(field: str) -> Program:
    """Of an array of structs."""
    return lambda rows: (
        rows.selectExpr("word", "array(struct(n as a, n as b)) as more").groupBy("word").agg(F.collect_list(field))
    )


def walking(key: object, rows: object, state: object) -> object:
    return running(key, rows, state)  # pyright: ignore[reportArgumentType]


CHANGES: dict[str, tuple[Program, Program, FingerprintPart]] = {
    "sum to count": (summed(), summed("count(n)"), FingerprintPart.AGGREGATES),
    "max to min": (summed("max(n)"), summed("min(n)"), FingerprintPart.AGGREGATES),
    "avg to sum": (summed("avg(n)"), summed("sum(n)"), FingerprintPart.AGGREGATES),
    "order of functions": (summed("sum(n)", "count(n)"), summed("count(n)", "sum(n)"), FingerprintPart.AGGREGATES),
    "another argument": (summed("sum(n)"), summed("sum(m)"), FingerprintPart.AGGREGATES),
    "an expression as argument": (summed("sum(n)"), summed("sum(n * 2)"), FingerprintPart.AGGREGATES),
    "another literal": (summed("sum(n * 3)"), summed("sum(n * 2)"), FingerprintPart.AGGREGATES),
    "a filter in a function": (summed(), summed("sum(n) FILTER (WHERE m > 1)"), FingerprintPart.AGGREGATES),
    "nulls": (summed("first(n)"), summed("first(n) IGNORE NULLS"), FingerprintPart.AGGREGATES),
    "precision": (
        summed("approx_count_distinct(n, 0.1)"),
        summed("approx_count_distinct(n, 0.05)"),
        FingerprintPart.AGGREGATES,
    ),
    "another field of an array": (collected("more.a"), collected("more.b"), FingerprintPart.AGGREGATES),
    "other bytes": (
        summed("count_if(CAST(word AS binary) = X'616263')"),
        summed("count_if(CAST(word AS binary) = X'616264')"),
        FingerprintPart.AGGREGATES,
    ),
    "a cast": (summed(), summed("sum(CAST(n AS double))"), FingerprintPart.AGGREGATES),
    "the type below": (
        summed(),
        lambda rows: summed()(rows.withColumn("n", F.col("n").cast("int"))),
        FingerprintPart.TYPES,
    ),
    "another name and another origin": (
        summed(),
        lambda rows: summed("sum(x)")(rows.withColumn("x", F.col("n") * 2)),
        FingerprintPart.AGGREGATES,
    ),
    "order of keys": (summed(keys=("word", "more")), summed(keys=("more", "word")), FingerprintPart.KEYS),
    "window of 20 seconds": (
        PROGRAMS["window"],
        summed(keys=("window(at, '20 seconds')", "word")),
        FingerprintPart.KEYS,
    ),
    "slide": (
        PROGRAMS["sliding"],
        summed(keys=("window(at, '10 seconds', '2 seconds', '1 second')",)),
        FingerprintPart.KEYS,
    ),
    "start": (
        PROGRAMS["sliding"],
        summed(keys=("window(at, '10 seconds', '5 seconds', '2 seconds')",)),
        FingerprintPart.KEYS,
    ),
    "gap": (PROGRAMS["session"], summed(keys=("session_window(at, '20 seconds')", "word")), FingerprintPart.KEYS),
    "another event time": (
        summed(keys=("at", "word")),
        lambda rows: summed(keys=("at", "word"))(rows.select(F.current_timestamp().alias("at"), "word", "n")),
        FingerprintPart.WATERMARK,
    ),
    "inner to left": (joined(), joined(how="left_outer"), FingerprintPart.JOIN),
    "join condition": (
        joined(),
        joined("word = same AND then >= at AND then <= at + interval 2 minutes"),
        FingerprintPart.CONDITION,
    ),
    "order of equal columns": (
        joined("word = same AND more = else AND then = at"),
        joined("more = else AND word = same AND then = at"),
        FingerprintPart.CONDITION,
    ),
    "columns of one name from the other side": (
        joined("word = else"),
        joined("more = same"),
        FingerprintPart.CONDITION,
    ),
    "columns of dropDuplicates": (
        PROGRAMS["once"],
        lambda rows: rows.dropDuplicates(["word", "n", "at"]),
        FingerprintPart.KEYS,
    ),
    "order of five columns": (
        lambda rows: rows.dropDuplicates(["at", "n", "m", "word", "more"]),
        lambda rows: rows.dropDuplicates(["at", "m", "n", "word", "more"]),
        FingerprintPart.ORDER,
    ),
    "within the watermark": (PROGRAMS["once"], PROGRAMS["lately"], FingerprintPart.KIND),
    "limit": (PROGRAMS["limit"], lambda rows: rows.limit(6), FingerprintPart.LIMIT),
    "another function": (by_hand(), by_hand(walking), FingerprintPart.FUNCTION),
    "state of a function": (by_hand(), by_hand(state="n long, m long"), FingerprintPart.STATE),
    "timeout of a function": (
        by_hand(),
        by_hand(timeout=GroupStateTimeout.ProcessingTimeTimeout),
        FingerprintPart.TIME,
    ),
    "variables of a processor": (custom(), custom(another_counter), FingerprintPart.STATE),
    "keys of a processor": (custom(), custom(key="more"), FingerprintPart.KEYS),
    "timers of a processor": (custom(), custom(time="ProcessingTime"), FingerprintPart.TIME),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_operator_is_refused_and_the_part_is_named(rows: DataFrame, change: str):
    before, now, part = CHANGES[change]
    (error,) = compared(fingerprints(rows, before), fingerprints(rows, now)).errors
    assert (error.code, f"{part.label}: " in error.expected, f"{part.label}: " in error.found) == (
        "TG-OPERATOR-CHANGED",
        True,
        True,
    )


def test_another_output_mode_is_refused(rows: DataFrame):
    before, now = (fingerprints(rows, summed(), mode) for mode in ("update", "complete"))
    (error,) = compared(before, now).errors
    assert (error.expected.partition(": ")[2], error.found) == ("output mode: update", "output mode: complete")


NO_CHANGES: dict[str, tuple[Program, Program]] = {
    "a set in another order": (summed("count_if(word IN ('a', 'b'))"), summed("count_if(word IN ('b', 'a'))")),
    "the same bytes": (
        summed("count_if(CAST(word AS binary) IN (X'616263', X'00'))"),
        summed("count_if(CAST(word AS binary) IN (X'616263', X'00'))"),
    ),
    "a filter before": (summed(), lambda rows: summed()(rows.where("n > 1"))),
    "a derived column before": (summed(), lambda rows: summed()(rows.withColumn("n", F.col("n") * 2))),
    "a column more before": (summed(), lambda rows: summed()(rows.withColumn("o", F.col("n") * 2))),
    "a rename before": (summed(), lambda rows: summed("sum(x)")(rows.withColumnRenamed("n", "x"))),
    "a rename of a key before": (summed(), lambda rows: summed(keys=("w",))(rows.withColumnRenamed("word", "w"))),
    "another column under its name": (
        summed(),
        lambda rows: summed()(rows.select(F.col("more").alias("word"), F.col("m").alias("n"))),
    ),
    "a window over a renamed time": (
        PROGRAMS["window"],
        lambda rows: summed(keys=("window(time, '10 seconds')", "word"))(rows.withColumnRenamed("at", "time")),
    ),
    "another order of columns": (summed(), lambda rows: summed()(rows.select("n", "word", "at"))),
    "upper case": (summed(), summed("sum(N)", keys=("WORD",))),
    "a filter after": (summed(), lambda rows: summed()(rows).where("word > 'a'")),
    "a derived column after": (summed(), lambda rows: summed()(rows).withColumn("one", F.lit(1))),
    "a rename after": (summed(), lambda rows: summed("sum(n) AS sum")(rows).withColumnRenamed("word", "w")),
    "arithmetic on the result": (summed(), summed("sum(n) * 2 + 1")),
    "a result twice": (summed(), summed("sum(n)", "sum(n) AS again")),
    "a window with a rename after": (
        PROGRAMS["window"],
        lambda rows: PROGRAMS["window"](rows.where("n > 1")).select(F.col("window.start").alias("start")),
    ),
    "an equality the other way round": (
        joined(),
        joined("same = word AND then >= at AND then <= at + interval 1 minute"),
    ),
    "order of other conditions": (joined(), joined("word = same AND then <= at + interval 1 minute AND then >= at")),
    "a filter below a join": (joined(), lambda rows: joined()(rows.where("n > 1"))),
    "a column more for a function": (by_hand(), lambda rows: by_hand()(rows.withColumn("o", F.lit(1)))),
}


@pytest.mark.parametrize("change", NO_CHANGES)
def test_steps_before_and_after_an_operator_are_not_compared(rows: DataFrame, change: str):
    before, now = (fingerprints(rows, program) for program in NO_CHANGES[change])
    found = compared(before, now)
    assert (found.errors, found.told) == ((), ())


@pytest.mark.parametrize(("before", "now"), [(by_hand(), by_hand(mended)), (custom(), custom(mended_counter))])
def test_another_body_of_a_function_is_accepted_and_said(rows: DataFrame, before: Program, now: Program):
    found = compared(fingerprints(rows, before), fingerprints(rows, now))
    assert found.errors == ()
    assert [": function body: " in text for text in found.told] == [True]
    assert compared(fingerprints(rows, before), fingerprints(rows, before)) == Comparison(), "the same once more"


def test_a_timestamp_in_an_operator_has_the_same_text_in_each_time_zone(rows: DataFrame):
    (found,) = fingerprints(rows, summed("count_if(at > TIMESTAMP '2026-01-01 02:00:00+02:00')"))
    assert found.compared["aggregate functions"].endswith("timestamp 2026-01-01T00:00:00.000000Z))")


def test_another_delay_of_the_watermark_is_accepted_and_said(rows: DataFrame, spark: SparkSession):
    before = fingerprints(rows, PROGRAMS["window"])
    now = fingerprints(events(spark, "20 seconds"), PROGRAMS["window"])
    (text,) = compared(before, now).told
    assert text.endswith(": watermark delay: at: 10 seconds -> at: 20 seconds")


def test_operators_of_one_query_have_a_fingerprint_each_from_the_last_one_on(rows: DataFrame):
    last, first = fingerprints(rows, PROGRAMS["twice"])
    assert (last.number, last.compared["aggregate functions"]) == (0, "max(count)")
    assert (first.number, first.compared["keys"]) == (1, "window(at, 5 seconds), word")


def test_a_processor_whose_state_cannot_be_told_is_compared_without_it(
    rows: DataFrame, caplog: pytest.LogCaptureFixture
):
    def fails() -> operator_programs.StatefulProcessor:
        def init(self: object, handle: object) -> None:
            raise RuntimeError("no connection")

        return type("Counter", (operator_programs.Counter,), {"init": init})()

    with caplog.at_level(logging.WARNING, logger="tidegate"):
        (found,) = fingerprints(rows, custom(fails))
    assert ("state schema" in found.compared, found.compared["function"]) == (False, "Counter")
    assert "no connection" in caplog.text


@pytest.mark.more
def test_each_fingerprint_is_the_same_under_spark_4_2(rows: DataFrame):
    assert SPARK_4_2.is_dir(), "`./dev test` installs it"
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (SPARK_4_2, ROOT))), "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(
        [sys.executable, operator_programs.__file__],
        env={**{key: value for key, value in os.environ.items() if key != "SPARK_HOME"}, **paths},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    older = json.loads(ended.stdout.splitlines()[-1])
    assert older["spark"].startswith("4.2.")
    for name, program in PROGRAMS.items():
        now = msgspec.to_builtins(fingerprints(rows, program))
        for texts in (now[0]["compared"], now[0]["origins"]):
            texts.pop(FingerprintPart.ORDER.label, None)
        assert json.loads(json.dumps(now)) == older["fingerprints"][name], name
