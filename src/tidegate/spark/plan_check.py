"""Checks a query's plan for reasons why Spark would refuse it, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidegate.core.errors import Code, TidegateError

_ENABLED = "spark.sql.streaming.unsupportedOperationCheck"


def check_plan(rows: DataFrame, mode: str, where: str) -> Sequence[TidegateError]:
    """Spark's own check of the operators and the output mode. Spark itself makes it only when the query is started."""
    if rows.sparkSession.conf.get(_ENABLED) == "false":
        return []
    jvm: Any = rows.sparkSession.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    plan = cast("Any", rows._jdf).queryExecution().analyzed()  # pyright: ignore[reportPrivateUsage]
    output_mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())()
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, output_mode)
    except PySparkException as error:
        return [refused_by_spark(error, where)]
    return []


def check_for_hashmap(rows: DataFrame, where: str) -> Sequence[TidegateError]:
    """Operators that Spark's hashmap store does not support. Spark itself would fail inside the first epoch."""
    plan = cast("Any", rows._jdf).queryExecution().analyzed()  # pyright: ignore[reportPrivateUsage]
    found = sorted(name for name in _operators(plan) if name.startswith("TransformWithState"))
    if not found:
        return []
    return [
        TidegateError(
            Code.QUERY_REFUSED,
            expected="a query without transformWithState, for which state.backend = hashmap has no room",
            found=", ".join(found),
            where=where,
            next_step="set state.backend = rocksdb, or keep the state with applyInPandasWithState",
        )
    ]


def closes_by_watermark(rows: DataFrame, mode: str) -> bool:
    """True if rows may wait for the watermark. In complete mode none do: each epoch emits all rows."""
    plan = cast("Any", rows._jdf).queryExecution().analyzed()  # pyright: ignore[reportPrivateUsage]
    return mode != "complete" and "EventTimeWatermark" in _operators(plan)


def _operators(plan: Any) -> set[str]:
    children = plan.children()
    return {plan.nodeName()}.union(*(_operators(children.apply(index)) for index in range(children.size())))


def refused_by_spark(error: PySparkException, where: str) -> TidegateError:
    """The error for a query that Spark does not start."""
    about_mode = (error.getCondition() or "").startswith("STREAMING_OUTPUT_MODE")
    return TidegateError(
        Code.OUTPUT_MODE if about_mode else Code.QUERY_REFUSED,
        expected="a query that Spark can run as a stream",
        found=str(error).split("\n")[0],
        where=where,
        next_step="give job.query another mode=, as Spark says"
        if about_mode
        else "change the query as Spark says; `tidegate check APP` tries it without a start",
    )
