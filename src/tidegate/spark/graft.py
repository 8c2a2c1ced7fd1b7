"""Replaces streams that a plan reads by other streams; the rest of the plan stays unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession


def graft(session: SparkSession, rows: DataFrame, stream_for: Callable[[Any], DataFrame | None]) -> DataFrame:
    """`rows` with other streams below. `stream_for` is called for every leaf of the plan; None keeps the leaf.

    A new stream takes over the internal names of the old columns, so the plan above stays valid.
    """
    plan = _grafted(session, _plan(rows), stream_for)
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(classic, plan), session)


def _plan(rows: DataFrame) -> Any:
    frame = cast("Any", rows._jdf)  # pyright: ignore[reportPrivateUsage]
    return frame.queryExecution().analyzed()


def _grafted(session: SparkSession, plan: Any, stream_for: Callable[[Any], DataFrame | None]) -> Any:
    children = plan.children()
    if children.isEmpty():
        stream = stream_for(plan)
        return plan if stream is None else _with_columns_of(plan, _plan(stream))
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    grafted = [_grafted(session, children.apply(index), stream_for) for index in range(children.size())]
    return plan.withNewChildren(jvm.PythonUtils.toSeq(grafted))


def _with_columns_of(old: Any, new: Any) -> Any:
    """The new leaf with the old one's columns: a copy of Spark's case class; its fields depend on the version of
    Spark.
    """
    fields = {str(new.productElementName(index)): new.productElement(index) for index in range(new.productArity())}
    return new.copy(*{**fields, "output": old.output()}.values())
