"""The sinks of a job that was started before, and a Kafka cluster, looked at without the job's program."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa

from tidegate.core.errors import TidegateError
from tidegate.core.records import SinkIdentity
from tidegate.kafka.brokers import OLDEST
from tidegate.kafka.cluster import cluster_of
from tidegate.operate.health import Finding, failed, failed_by, ok, warn
from tidegate.operate.place import JobPlace
from tidegate.operate.sinks import DescribedSink, Sinks, open_sink
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.kafka.checks import cluster_violations_of
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.sinks.staging import unwritable

_BUSY_SECONDS = 1.0


def check_sinks(job: JobPlace, options: Mapping[str, str]) -> Iterator[Finding]:
    """Every sink of the job, as its last start described it."""
    sinks = Sinks(job.storage)
    if not sinks.all():
        yield warn(f"job {job.name}", "no start has described its sinks", "start the job once with this release")
    for described in sinks.all():
        yield from _check(job, described, options, sinks.interval_seconds)


def check_cluster(servers: str, options: Mapping[str, str], interval_seconds: float) -> list[Finding]:
    """A Kafka cluster as a sink would use it: rights on ids of tidegate's, the longest transaction, no topic."""
    whose = SinkIdentity(job="check", job_id="check", generation=1, query="check", sink="check")
    return _kafka(f"Kafka {servers}", KafkaSink("check", servers, options=options), whose, interval_seconds)


def _check(
    job: JobPlace, described: DescribedSink, options: Mapping[str, str], interval_seconds: float
) -> list[Finding]:
    what = f"sink {described.query}/{described.uid}"
    try:
        match open_sink(described, options):
            case KafkaSink() as sink:
                return _kafka(what, sink, _identity(job, described), interval_seconds)
            case SQLiteSink() as sink:
                return [_sqlite(what, sink)]
            case FileSink() as sink:
                return [_files(what, sink)]
            case _:
                return [warn(what, f"{described.target}: nothing is known of how to look at it", "start the job")]
    except TidegateError as error:
        return [warn(what, f"not looked at: {error.found}", error.next_step)]


def _identity(job: JobPlace, described: DescribedSink) -> SinkIdentity:
    record = job.record
    return SinkIdentity(
        job=record.name,
        job_id=record.job_id,
        generation=record.generation,
        query=described.query,
        sink=described.uid,
    )


# --- Kafka -------------------------------------------------------------------------------------------------


def _kafka(what: str, sink: KafkaSink, identity: SinkIdentity, interval_seconds: float) -> list[Finding]:
    plan = SinkPlan(
        identity=identity,
        schema=pa.schema([]),
        mode="append",
        local_master=True,
        read_journal=lambda _: (),
        interval_seconds=interval_seconds,
    )
    with _warnings() as warnings:
        violations = cluster_violations_of(sink, plan)
    found = [finding for each in violations for finding in failed_by(what, each)]
    found += [warn(what, each, "see docs/kafka.md") for each in warnings]
    if violations:
        return found
    cluster = cluster_of(sink)
    told = "" if cluster.tells else " (what brokers usually have: this user may not see it)"
    return [
        ok(
            what,
            f"{sink.clients.servers} answers, Kafka {OLDEST} or newer, the rights are there;"
            f" transactions of {cluster.timeout_ms(sink.transaction_timeout) / 1000:g} s of at most"
            f" {cluster.max_timeout_ms / 1000:g} s, interval {interval_seconds:g} s;"
            f" evidence is kept {cluster.evidence_kept_ms / 3_600_000:g} h{told}",
        ),
        *found,
    ]


@contextmanager
def _warnings() -> Generator[list[str]]:
    """What is logged meanwhile, in place of the log."""
    told: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    log, handler = logging.getLogger("tidegate"), Kept(logging.WARNING)
    before = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield told
    finally:
        log.removeHandler(handler)
        log.propagate = before


# --- on a local disk ---------------------------------------------------------------------------------------


def _sqlite(what: str, sink: SQLiteSink) -> Finding:
    """The write lock is taken and given back: nothing is written."""
    if not sink.path.exists():
        flaw = unwritable(sink.path.parent)
        if flaw is not None:
            return failed(what, flaw, "give this user the right to write there")
        return ok(what, f"{sink.path} does not exist yet and can be created")
    try:
        with closing(sqlite3.connect(_uri(sink.path), uri=True, isolation_level=None, timeout=_BUSY_SECONDS)) as target:
            target.execute("BEGIN IMMEDIATE")
            target.execute("ROLLBACK")
            size = sink.path.stat().st_size
    except sqlite3.OperationalError as error:
        return failed(what, f"{sink.path}: {error}", "end what holds the database, or mend the file and its rights")
    except sqlite3.DatabaseError as error:
        return failed(what, f"{sink.path}: {error}", "put the database back from a copy together with its checkpoint")
    return ok(what, f"{sink.path} ({size} bytes) can be opened and is not locked")


def _uri(path: Path) -> str:
    return f"{path.as_uri()}?mode=rw"


def _files(what: str, sink: FileSink) -> Finding:
    flaw = unwritable(sink.path)
    if flaw is not None:
        return failed(what, flaw, "give this user the right to write there")
    return ok(what, f"{sink.path} can be written")
