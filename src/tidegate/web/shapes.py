"""The JSON of tidegate's own views. Times are seconds since 1970; durations end in `_ms`; null means "not known"."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from tidegate.operate import Graph


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object of an answer."""


class LastCheckpoint(Shape, frozen=True, kw_only=True):
    """The newest epoch that is done, of any query."""

    query: str
    epoch: int
    at: float
    duration_ms: float | None
    rows: int


class JobCard(Shape, frozen=True, kw_only=True):
    """One job among others. `id`: 32 hex digits; empty for a job that has not started. `since`: of a job that lives,
    when its newest driver has begun; of another one, when that driver ended, by its last report. `rates`: rows per
    second of its newest epochs, the oldest first."""

    id: str
    name: str
    state: str
    meaning: str
    alive: bool
    since: float | None
    problem: str
    rows_per_second: float
    lag: str | None
    restarts: int
    last_checkpoint: LastCheckpoint | None
    rates: tuple[float, ...]
    queries: int


class JobCards(Shape, frozen=True, kw_only=True):
    """All jobs of a storage: those that failed come first."""

    storage: str
    at: float
    jobs: tuple[JobCard, ...]


class DriverShape(Shape, frozen=True, kw_only=True):
    """The process of a job's newest report. `at`: the time of the report."""

    host: str
    process: int
    started_at: float
    at: float
    application: str


class QueryLive(Shape, frozen=True, kw_only=True):
    """A query now. Epochs are -1 if there was none."""

    uid: str
    generation: int
    run: int | None
    epoch: int | None
    finished: int
    rows: int
    rows_per_second: float
    epoch_ms: float | None
    lag: str | None
    last_done_at: float | None
    open_transactions: int
    dead_letters: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]


class PartTaken(Shape, frozen=True, kw_only=True):
    """How a query took part in a checkpoint across queries."""

    after_ms: int
    aligned_ms: int
    rows_held: int
    bytes_held: int
    rows_in_flight: int


class BarriersShape(Shape, frozen=True, kw_only=True):
    """The newest retained checkpoint across the queries of a job. `taken`: by query."""

    number: int
    at: str
    alignment: str
    taken: dict[str, PartTaken]


class JobLive(Shape, frozen=True, kw_only=True):
    """One job now. `retained`: the numbers of its retained checkpoints."""

    card: JobCard
    driver: DriverShape | None
    error: str
    queries: tuple[QueryLive, ...]
    graph: Graph
    barriers: BarriersShape | None
    retained: tuple[int, ...]
    drained_at: str | None


class EpochRow(Shape, frozen=True, kw_only=True):
    """One epoch that is done. `number`: its place among all done epochs of the job; 0 if an older release has written
    it. `read`: rows that the sources have given; null if that is not known. `phases`: milliseconds by the name of the
    phase; a phase that was not measured is absent."""

    number: int
    query: str
    epoch: int
    run: int
    at: float
    duration_ms: float | None
    rows: int
    read: int | None
    aborted: int
    redone: int
    shown_again: int
    phases: dict[str, float] = {}


class EpochRows(Shape, frozen=True, kw_only=True):
    """Epochs, the newest first."""

    epochs: tuple[EpochRow, ...]


class FailureShape(Shape, frozen=True, kw_only=True):
    """A failure of a job. `number`: its place among all failures of the job. `restart_in_seconds`: the pause before the
    restart; null if none followed. `details`: what it is about, by name: a column, a row, a topic, a file. Secrets are
    hidden."""

    number: int
    at: float
    code: str
    what: str
    where: str
    remedy: str
    query: str | None
    epoch: int | None
    run: int | None
    restart_in_seconds: float | None
    details: dict[str, str]


class Failures(Shape, frozen=True, kw_only=True):
    """The failures of a job, the newest first."""

    failures: tuple[FailureShape, ...]


class SinkShape(Shape, frozen=True, kw_only=True):
    """A sink of a query. `guarantee`: what its readers see, end to end. `open_transactions`: those of its query."""

    query: str
    uid: str
    kind: str
    told: str
    level: str
    guarantee: str
    open_transactions: int | None


class SinksShape(Shape, frozen=True, kw_only=True):
    """The sinks of a job, with what its epochs have done to transactions over all starts of the job."""

    sinks: tuple[SinkShape, ...]
    epochs_done: int
    committed: int
    aborted: int
    redone: int
    shown_again: int


class SkippedShape(Shape, frozen=True, kw_only=True):
    """Lost records that a query has skipped in an epoch. `text`: by topic and partition."""

    at: float
    query: str | None
    epoch: int | None
    text: str


class SourceShape(Shape, frozen=True, kw_only=True):
    """A source of a job. `lag`: of the queries that read it, as they report it, by query. `offsets`: how far they have
    read it at the end of their newest done epoch, in lines, by query. `skipped`: the lost records that they have
    skipped, the newest first, as far as the milestones reach."""

    uid: str
    kind: str
    told: str
    lag: dict[str, str]
    offsets: dict[str, tuple[str, ...]]
    skipped: tuple[SkippedShape, ...]


class SourcesShape(Shape, frozen=True, kw_only=True):
    """The sources of a job."""

    sources: tuple[SourceShape, ...]


class SettingShape(Shape, frozen=True, kw_only=True):
    """A setting of the newest driver, and the place that has set it. A secret is hidden."""

    name: str
    value: str
    origin: str


class SettingsShape(Shape, frozen=True, kw_only=True):
    """The settings of a job's newest driver."""

    settings: tuple[SettingShape, ...]


class Problem(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was not done (RFC 9457). `errors` has the same as a text, where Flink's clients look for it."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"
    code: str = ""
    expected: str = ""
    found: str = ""
    where: str = ""
    next_step: str = ""
    errors: tuple[str, ...] = ()


class TransactionShape(Shape, frozen=True, kw_only=True):
    """A transaction that waits. `would`: what `tidegate txn` would do with it, in a sentence."""

    query: str
    sink: str
    target: str
    name: str
    epoch: int | None
    run: int | None
    task: int | None
    rows: int | None
    age_seconds: float | None
    named: str
    seen: str
    verdict: str
    would: str


class TransactionsShape(Shape, frozen=True, kw_only=True):
    """The transactions of a job that wait. With problems, some may be missing."""

    transactions: tuple[TransactionShape, ...]
    problems: tuple[Problem, ...]


class EventOnAxisKind(Enum):
    """What happened to a job beside its epochs. `kill`: its driver ended without a report, and no supervisor has
    recorded it. `skip`: lost records of a source were skipped. `restart`: a failure that a restart followed. `stop`: an
    end without an error."""

    START = "start"
    SAVEPOINT = "savepoint"
    KILL = "kill"
    SKIP = "skip"
    FAILURE = "failure"
    RESTART = "restart"
    STOP = "stop"


class EventOnAxis(Shape, frozen=True, kw_only=True):
    """What happened to a job beside its epochs. `text`: more about it, in a sentence."""

    at: float
    kind: EventOnAxisKind
    text: str
    query: str | None = None
    epoch: int | None = None


class EventsOnAxis(Shape, frozen=True, kw_only=True):
    """The same on the axis of the epochs, the oldest first."""

    events: tuple[EventOnAxis, ...]


class LogLines(Shape, frozen=True, kw_only=True):
    """The end of a job's log. `path`: the file; empty if there is none, and then `problem` says why."""

    path: str
    lines: tuple[str, ...]
    problem: str = ""


class Asks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of a request, or its body."""


class Nothing(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""


JsonObject = dict[str, Any]
"""A JSON object whose fields another program gives."""
