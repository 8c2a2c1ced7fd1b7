"""How long the demo's programs run: until the process that started them says so."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.streaming.query import StreamingQuery

from tidegate import Job
from tidegate.testing.demo.child import Child


def run(job: Job, child: Child) -> None:
    """A job of tidegate, which tells its figures as it goes."""
    handle = job.start()
    while not handle.wait(timeout_seconds=0.05):
        queries = handle.status().queries
        child.report({"aborted": sum(q.aborted for q in queries), "redone": sum(q.redone for q in queries)})
        if child.told_to_end.is_set():
            handle.stop()


def watch(queries: Sequence[StreamingQuery], child: Child) -> None:
    """Plain queries; the failure of one ends the program."""
    while not child.told_to_end.wait(0.05):
        for query in queries:
            if (failure := query.exception()) is not None:
                raise SystemExit(str(failure))
    for query in queries:
        query.stop()
