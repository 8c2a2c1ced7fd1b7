"""Checks the sinks of a job that was started before, and Kafka clusters, without the job's program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding, failed_by, warn
from tidegate.core.records import SinkIdentity
from tidegate.extras import Extra, require
from tidegate.operate.place import JobPlace
from tidegate.operate.sinks import DescribedSink, Sinks, open_sink
from tidegate.sinks.base import SinkPlan


def check_sinks(job: JobPlace, options: Mapping[str, str]) -> Iterator[Finding]:
    """Check every sink of the job, as its last start described it."""
    sinks = Sinks(job.storage)
    if not sinks.all():
        yield warn(f"job {job.name}", "no start has described its sinks", "start the job once with this release")
    for described in sinks.all():
        yield from _check(job, described, options, sinks.interval_seconds)


def check_cluster(servers: str, options: Mapping[str, str], interval_seconds: float) -> Sequence[Finding]:
    """Check a Kafka cluster for use by a sink: rights on tidegate's ids, and the longest transaction. No topic is
    checked."""
    what = f"Kafka {servers}"
    try:
        require(Extra.KAFKA)
    except TidegateError as error:
        return failed_by(what, error)
    from tidegate.sinks.kafka.sink import KafkaSink

    whose = SinkIdentity(job="check", job_id="check", generation=1, query="check", sink="check")
    return KafkaSink("check", servers, options=options).probe(what, _plan(whose, interval_seconds))


def _check(
    job: JobPlace, described: DescribedSink, options: Mapping[str, str], interval_seconds: float
) -> Sequence[Finding]:
    what = f"sink {described.query}/{described.uid}"
    if not described.opens_without_the_program:
        return [warn(what, f"{described.told}: only the job's program can open it", "start the job")]
    whose = job.sink(described.query, described.uid)
    try:
        return open_sink(described, options).probe(what, _plan(whose, interval_seconds))
    except TidegateError as error:
        return [warn(what, f"not looked at: {error.found}", error.next_step)]


def _plan(whose: SinkIdentity, interval_seconds: float) -> SinkPlan:
    return SinkPlan(
        identity=whose,
        schema=pa.schema([]),
        mode="append",
        local_master=True,
        read_journal=lambda _: (),
        interval_seconds=interval_seconds,
    )
