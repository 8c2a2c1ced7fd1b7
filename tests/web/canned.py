"""Jobs as the page sees them, made by hand out of the shapes of the interface: running, failed, with hostile names."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tidegate.operate.graph import Graph, GraphEdge, GraphNode, NodeKind
from tidegate.web.shapes import (
    BarriersShape,
    DriverShape,
    EpochRow,
    EpochRows,
    EventOnAxis,
    EventOnAxisKind,
    EventsOnAxis,
    Failures,
    FailureShape,
    JobCard,
    JobCards,
    JobLive,
    LastCheckpoint,
    LogLines,
    PartTaken,
    QueryLive,
    SettingShape,
    SettingsShape,
    SinkShape,
    SinksShape,
    SkippedShape,
    SourceShape,
    SourcesShape,
    TransactionShape,
    TransactionsShape,
)

HOSTILE = "<script>window.broken=1</script><img src=x onerror=window.broken=1>"
NOW = time.time()
PATH = "hdfs://store/savepoints/savepoint-4f2a91-20261114T0902"
_MS = {
    "compute": 148.0,
    "pre_commit": 21.0,
    "sync": 34.0,
    "prepared": 9.0,
    "commits": 17.0,
    "decided": 7.0,
    "commit": 26.0,
    "done": 6.0,
}


def card(name: str, state: str = "RUNNING", **changed: object) -> JobCard:
    alive = state in ("RUNNING", "STARTING", "RESTARTING")
    rates = tuple(1200.0 + 300 * ((7 * number) % 11) / 11 for number in range(30))
    values: dict[str, object] = {
        "id": "0f1e2d3c" + "0" * 24,
        "name": name,
        "state": state,
        "meaning": "its driver runs" if alive else "it does not run",
        "alive": alive,
        "since": NOW - 93_600,
        "problem": "",
        "rows_per_second": 1342.0 if alive else 0.0,
        "lag": "2.1 s" if alive else None,
        "restarts": 0,
        "last_checkpoint": LastCheckpoint(query="counts", epoch=18_204, at=NOW - 2, duration_ms=268.0, rows=360),
        "rates": rates,
        "queries": 1,
    }
    return JobCard(**{**values, **changed})  # pyright: ignore[reportArgumentType]


def cards(*more: JobCard) -> JobCards:
    lost = "TG-SINK-LOST: the broker has aborted a prepared transaction of sink 'payments'"
    jobs = (
        card("payments", "FAILED", problem=lost, restarts=3, since=NOW - 1_800, lag=None),
        card("sessions", "RESTARTING", restarts=1, rows_per_second=0.0, since=NOW - 40),
        card("clicks", rows_per_second=48_120.0, lag="12,400 rows"),
        card("fraud-alerts", rows_per_second=212.4, lag=None),
        card("wordcount", queries=2),
        card("nightly-report", "FINISHED", since=NOW - 400_000),
        card("old-orders", "STOPPED", since=NOW - 900_000),
    )
    return JobCards(storage="hdfs://store/checkpoints", at=NOW, jobs=(*more, *jobs))


def live(name: str = "wordcount", state: str = "RUNNING", **changed: object) -> JobLive:
    queries = (_query("words", ("lines",), ("words",), 18_206), _query("counts", ("words",), ("table", "late"), 18_204))
    return JobLive(
        card=card(name, state, queries=2, **changed),
        driver=DriverShape(
            host="node-3", process=4711, started_at=NOW - 93_600, at=NOW - 1, application="app-20261127"
        ),
        error="",
        queries=queries,
        graph=graph(),
        barriers=BarriersShape(
            number=311,
            at="2026-11-14T09:02:11Z",
            alignment="aligned",
            taken={
                "words": PartTaken(after_ms=42, aligned_ms=0, rows_held=0, bytes_held=0, rows_in_flight=0),
                "counts": PartTaken(after_ms=310, aligned_ms=120, rows_held=840, bytes_held=65_200, rows_in_flight=0),
            },
        ),
        retained=(309, 310, 311),
        drained_at=None,
    )


def _query(uid: str, sources: tuple[str, ...], sinks: tuple[str, ...], finished: int) -> QueryLive:
    return QueryLive(
        uid=uid,
        generation=2,
        run=7,
        epoch=finished + 1,
        finished=finished,
        rows=360,
        rows_per_second=1342.0,
        epoch_ms=268.0,
        lag="2.1 s",
        last_done_at=NOW - 2,
        open_transactions=2,
        dead_letters=0,
        sources=sources,
        sinks=sinks,
    )


def graph(name: str = "lines") -> Graph:
    node = GraphNode
    nodes = (
        node(
            id="source:lines",
            kind=NodeKind.SOURCE,
            name=name,
            told="topic 'lines' of kafka",
            query="words",
            lag="2.1 s",
            epoch=18_206,
        ),
        node(
            id="query:words",
            kind=NodeKind.QUERY,
            name="words",
            told="query",
            query="words",
            rows_per_second=1342.0,
            epoch=18_206,
            behind_barrier=True,
        ),
        node(
            id="channel:c",
            kind=NodeKind.CHANNEL,
            name="words",
            told="channel, 4 partitions",
            rows_per_second=1342.0,
            lag="0.4 s",
            epoch=18_206,
            behind_barrier=True,
        ),
        node(
            id="query:counts",
            kind=NodeKind.QUERY,
            name="counts",
            told="query",
            query="counts",
            rows_per_second=1338.0,
            epoch=18_204,
            behind_barrier=False,
        ),
        node(
            id="sink:counts/table",
            kind=NodeKind.SINK,
            name="table",
            told="table 'counts' of PostgreSQL",
            query="counts",
            rows_per_second=1338.0,
            epoch=18_204,
        ),
        node(id="sink:counts/late", kind=NodeKind.SINK, name="late", told="files in hdfs://store/late", query="counts"),
    )
    pairs = (
        ("source:lines", "query:words"),
        ("query:words", "channel:c"),
        ("channel:c", "query:counts"),
        ("query:counts", "sink:counts/table"),
        ("query:counts", "sink:counts/late"),
    )
    return Graph(nodes=nodes, edges=tuple(GraphEdge(begin=begin, end=end) for begin, end in pairs))


def epochs(count: int = 120) -> EpochRows:
    return EpochRows(epochs=tuple(_epochs(count)))


def _epochs(count: int) -> Iterator[EpochRow]:
    for number in range(count):
        factor = 0.75 + ((number * 37) % 17) / 30 + (2.4 if number % 29 == 7 else 0.0)
        slow_sync = 3.0 if number % 13 == 4 else 1.0
        phases = {name: round(ms * factor * (slow_sync if name == "sync" else 1.0), 1) for name, ms in _MS.items()}
        recovered = number == 41
        yield EpochRow(
            number=20_000 - number,
            query="counts" if number % 2 else "words",
            epoch=18_206 - number,
            run=7 if number < 41 else 6,
            at=NOW - 2 - number * 0.6 - (240 if number >= 41 else 0),
            duration_ms=None if recovered else sum(phases.values()),
            rows=300 + (number * 53) % 140,
            read=None if recovered else 1_360,
            aborted=0,
            redone=2 if recovered else 0,
            shown_again=0,
            phases={} if recovered else phases,
        )


def events() -> EventsOnAxis:
    killed = "process 4711 on worker-3 ended without a report: killed, or out of memory"
    lost = "TG-EXECUTOR-LOST: an executor was killed, and its tasks with it"
    return EventsOnAxis(
        events=(
            EventOnAxis(
                at=NOW - 290, kind=EventOnAxisKind.SAVEPOINT, text=f"a savepoint in {PATH}", query=None, epoch=18_150
            ),
            EventOnAxis(at=NOW - 265, kind=EventOnAxisKind.RESTART, text=lost, query="counts", epoch=18_165),
            EventOnAxis(at=NOW - 240, kind=EventOnAxisKind.STOP, text="the job is STOPPED"),
            EventOnAxis(at=NOW - 120, kind=EventOnAxisKind.KILL, text=killed),
            EventOnAxis(at=NOW - 26.4, kind=EventOnAxisKind.START, text="the job was started"),
        )
    )


def failures(text: str = "an executor was killed, and its tasks with it") -> Failures:
    first = FailureShape(
        number=9,
        at=NOW - 265,
        code="TG-EXECUTOR-LOST",
        what=text,
        where="task 3 of epoch 18165",
        remedy="nothing: the job was started again from its last checkpoint",
        query="counts",
        epoch=18_165,
        run=6,
        restart_in_seconds=2.0,
        details={"executor": "7", "task": "3"},
    )
    second = FailureShape(
        number=8,
        at=NOW - 90_000,
        code="TG-SINK-UNREACHABLE",
        what="the database refused a connection",
        where="sink 'table'",
        remedy="look at the database; the job goes on as soon as it answers",
        query="counts",
        epoch=17_001,
        run=5,
        restart_in_seconds=None,
        details={"table": "counts", "column": "total", "row": "{word=tide, total=9223372036854775808}"},
    )
    return Failures(failures=(first, second))


def sinks() -> SinksShape:
    once = "each row exactly once, when its epoch is done"
    return SinksShape(
        sinks=(
            SinkShape(
                query="counts",
                uid="table",
                kind="postgres",
                told="table 'counts' of PostgreSQL",
                level="exactly-once",
                guarantee=once,
                open_transactions=2,
            ),
            SinkShape(
                query="counts",
                uid="late",
                kind="files",
                told="files in hdfs://store/late",
                level="exactly-once",
                guarantee=once,
                open_transactions=2,
            ),
        ),
        epochs_done=10_000,
        committed=20_014,
        aborted=14,
        redone=2,
        shown_again=0,
    )


def transactions() -> TransactionsShape:
    def waiting(number: int, verdict: str, named: str, seen: str, would: str) -> TransactionShape:
        return TransactionShape(
            query="counts",
            sink="table",
            target="table 'counts'",
            name=f"tidegate-0f1e2d3c-2-counts-table-18205-7-{number}",
            epoch=18_205,
            run=7,
            task=number,
            rows=90,
            age_seconds=4.2 + number,
            named=named,
            seen=seen,
            verdict=verdict,
            would=would,
        )

    return TransactionsShape(
        transactions=(
            waiting(0, "in use", "prepared", "staged", "the job runs and uses it: nothing is to be done"),
            waiting(1, "commit", "decided", "staged", "`tidegate txn commit` would commit it with its epoch"),
        ),
        problems=(),
    )


def sources() -> SourcesShape:
    lag, skipped = {"words": "2.1 s"}, "topic lines: partition 1 to 31007 (12 records lost)"
    return SourcesShape(
        sources=(
            SourceShape(
                uid="lines",
                kind="kafka",
                told="topic 'lines'",
                lag=lag,
                offsets={"words": ("topic lines: partition 0 at 48211, partition 1 at 47902",)},
                skipped=(SkippedShape(at=NOW - 200, query="words", epoch=18_160, text=skipped),),
            ),
            SourceShape(
                uid="words",
                kind="channel",
                told="channel, 4 partitions",
                lag={"counts": "0.4 s", "totals": "0.6 s"},
                offsets={"counts": ("0: 812, 1: 790, 2: 805, 3: 799",), "totals": ("0: 801, 1: 780, 2: 795, 3: 790",)},
                skipped=(),
            ),
        )
    )


def settings() -> SettingsShape:
    rows = (
        ("checkpointing.mode", "exactly-once", "default"),
        ("savepoints.dir", "hdfs://store/savepoints", "the file tidegate.toml"),
        ("restart.strategy", "exponential-delay", "the environment"),
        ("restart.max_backoff", "1min", "default"),
        ("kafka.password", "(hidden)", "the program"),
    )
    return SettingsShape(
        settings=tuple(SettingShape(name=name, value=value, origin=origin) for name, value, origin in rows)
    )


def log() -> LogLines:
    line = "2026-11-14 09:02:{:02d} INFO epoch {} of counts is done: 360 rows, 268 ms"
    lines = [line.format(number % 60, 18_100 + number) for number in range(60)]
    lines[20] = "2026-11-14 09:02:20 WARN the executor on node-2 is lost"
    lines[21] = "2026-11-14 09:02:21 ERROR TG-EXECUTOR-LOST: an executor was killed, and its tasks with it"
    return LogLines(path="hdfs://store/checkpoints/wordcount/logs/driver-7.log", lines=tuple(lines))
