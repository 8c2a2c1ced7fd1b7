"""Runs a demo program until the process that started it tells it to end."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.streaming.query import StreamingQuery

from tidegate import Job
from tidegate.testing.demo.child import Child


def run(job: Job, child: Child) -> None:
    """Run a job of tidegate, and report its figures while it runs."""
    handle = job.start()
    while not handle.wait(timeout_seconds=0.05):
        queries = handle.status().queries
        child.report({"aborted": sum(q.aborted for q in queries), "redone": sum(q.redone for q in queries)})
        if child.told_to_end.is_set():
            handle.stop()


def watch(queries: Sequence[StreamingQuery], child: Child) -> None:
    """Watch queries of plain PySpark. If one fails, the program ends."""
    while not child.told_to_end.wait(0.05):
        for query in queries:
            if (failure := query.exception()) is not None:
                raise SystemExit(str(failure))
    for query in queries:
        query.stop()
