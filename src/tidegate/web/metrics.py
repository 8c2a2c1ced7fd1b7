"""The text of `/metrics`: what a scrape of Prometheus gets, for all jobs of a storage.

Names: where Flink has a metric of this meaning, its name is unchanged behind `tidegate_job_`, with the same unit, and
it is a gauge, as Flink exports it. What Flink has not is named as Prometheus wants it: a counter ends in `_total`, a
time is in seconds. No label is called `job`: Prometheus has one of that name.

How many series there are: at most SERIES_A_JOB for each job and SERIES_A_QUERY more for each query, for at most
JOBS_SHOWN jobs and QUERIES_SHOWN queries. Living jobs come first; what is left out is counted. All label values are
names of jobs and queries, and members of closed enums.

No counter goes back while a job's folder lives: they come from the totals of its histories, not from its driver's
report.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from tidegate.operate import (
    BOUNDS_MS,
    DoneCheckpoint,
    JobTotals,
    JobView,
    QueryBeat,
    QueryTotals,
    Spread,
    State,
    TimedPhase,
)
from tidegate.web.routing import RouteRequest
from tidegate.web.site import Site

JOBS_SHOWN: Final = 500
QUERIES_SHOWN: Final = 500
SERIES_A_JOB: Final = 26
SERIES_A_QUERY: Final = 170

_JOB: Final = "tidegate_job_"
_LABELS_OF_A_JOB: Final = ("job_name",)
_LABELS_OF_A_QUERY: Final = ("job_name", "query")


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job, and the totals of its histories; None if they cannot be read, or if it has not started."""

    job: JobView
    totals: JobTotals | None


@dataclass(frozen=True, slots=True)
class _SeenQuery:
    """A query of a seen job: its totals, and what its living driver reports of it."""

    job: SeenJob
    uid: str
    totals: QueryTotals | None
    beat: QueryBeat | None


@dataclass(frozen=True, slots=True)
class _JobSeries:
    """A metric with one series for each job. `value`: None where it is not known; `now`: seconds since 1970."""

    name: str
    help: str
    value: Callable[[SeenJob, float], float | None]
    kind: type[GaugeMetricFamily | CounterMetricFamily] = field(default=GaugeMetricFamily)


@dataclass(frozen=True, slots=True)
class _QuerySeries:
    """A metric with one series for each query. `value` and `now`: as in `_JobSeries`."""

    name: str
    help: str
    value: Callable[[_SeenQuery, float], float | None]
    kind: type[GaugeMetricFamily | CounterMetricFamily] = field(default=GaugeMetricFamily)


def get_metrics(asked: RouteRequest) -> Response:
    """`GET /metrics`."""
    return Response(metrics_text(lambda: seen_jobs(asked.site)), media_type=CONTENT_TYPE_LATEST)


def seen_jobs(site: Site) -> Iterator[SeenJob]:
    """The views of all jobs, which other readers share."""
    for job in site.jobs():
        yield SeenJob(job, site.totals(job))


def metrics_text(jobs: Callable[[], Iterable[SeenJob]], clock: Callable[[], float] = time.time) -> bytes:
    """The metrics in Prometheus' text format. `jobs` gives the newest views; it is called once."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobsCollector(jobs, clock))
    return generate_latest(registry)


class JobsCollector(Collector):
    """Collects the metrics of all jobs. `clock`: seconds since 1970."""

    def __init__(self, jobs: Callable[[], Iterable[SeenJob]], clock: Callable[[], float] = time.time) -> None:
        self._jobs = jobs
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """None: a registration must not read."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Every metric with the series of all jobs that are shown."""
        jobs, now = sorted(self._jobs(), key=lambda each: (not each.job.state.alive, each.job.name)), self._clock()
        shown = jobs[:JOBS_SHOWN]
        queries = [query for job in shown for query in _queries(job)]
        yield _states(shown)
        for series in _OF_JOBS:
            metric = series.kind(_JOB + series.name, series.help, labels=_LABELS_OF_A_JOB)
            for job in shown:
                if (value := series.value(job, now)) is not None:
                    metric.add_metric((job.job.name,), value)
            yield metric
        for series in _OF_QUERIES:
            metric = series.kind(_JOB + series.name, series.help, labels=_LABELS_OF_A_QUERY)
            for query in queries[:QUERIES_SHOWN]:
                if (value := series.value(query, now)) is not None:
                    metric.add_metric((query.job.job.name, query.uid), value)
            yield metric
        yield from _histograms(queries[:QUERIES_SHOWN])
        yield _number("tidegate_jobs", "Jobs of the storage.", len(jobs))
        yield _number("tidegate_jobs_left_out", "Jobs that are too many to be shown here.", len(jobs) - len(shown))
        left_out = max(len(queries) - QUERIES_SHOWN, 0)
        yield _number("tidegate_queries_left_out", "Queries that are too many to be shown here.", left_out)


def _number(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value=value)


def _states(jobs: Sequence[SeenJob]) -> Metric:
    told = "1 for the state that the job is in, 0 for the others."
    metric = GaugeMetricFamily(f"{_JOB}state", told, labels=(*_LABELS_OF_A_JOB, "state"))
    for each in jobs:
        for state in State:
            metric.add_metric((each.job.name, state.label), float(each.job.state is state))
    return metric


def _histograms(queries: Sequence[_SeenQuery]) -> Iterator[Metric]:
    """How long epochs and their phases take."""
    told = "Seconds from Spark's choice of an epoch's input to its last commit."
    epochs = HistogramMetricFamily(f"{_JOB}epoch_seconds", told, labels=_LABELS_OF_A_QUERY)
    told = "Seconds that each phase of an epoch has taken."
    phases = HistogramMetricFamily(f"{_JOB}epoch_phase_seconds", told, labels=(*_LABELS_OF_A_QUERY, "phase"))
    for each in queries:
        if each.totals is None:
            continue
        labels = (each.job.job.name, each.uid)
        epochs.add_metric(labels, _buckets(each.totals.took), each.totals.took.sum_ms / 1000)
        for phase in TimedPhase:
            if (spread := each.totals.phases.get(phase)) is not None:
                phases.add_metric((*labels, phase.value), _buckets(spread), spread.sum_ms / 1000)
    yield epochs
    yield phases


def _buckets(spread: Spread) -> list[tuple[str, float]]:
    """Prometheus' buckets: each counts all times up to its bound, in seconds."""
    found, so_far = list[tuple[str, float]](), 0
    bounds = (*(str(each / 1000) for each in BOUNDS_MS), "+Inf")
    for bound, count in zip(bounds, spread.counts, strict=True):
        so_far += count
        found.append((bound, so_far))
    return found


def _queries(seen: SeenJob) -> list[_SeenQuery]:
    """The queries of a job, by uid: those of its history, and those that its newest driver reports."""
    totals = {} if seen.totals is None else seen.totals.queries
    alive = seen.job.state.alive and seen.job.beat is not None
    beats = {each.uid: each for each in seen.job.beat.queries} if alive and seen.job.beat is not None else {}
    return [_SeenQuery(seen, uid, totals.get(uid), beats.get(uid)) for uid in sorted({*totals, *beats})]


# --- values of a job ---------------------------------------------------------------------------------------


def _uptime_ms(seen: SeenJob, now: float) -> float:
    beat = seen.job.beat
    return (now - beat.started_at) * 1000 if seen.job.state is State.RUNNING and beat is not None else 0.0


def _beat_age(seen: SeenJob, now: float) -> float | None:
    runs = seen.job.state is State.RUNNING
    return max(now - seen.job.beat.at, 0.0) if runs and seen.job.beat is not None else None


def _lease_age(seen: SeenJob, now: float) -> float | None:
    beat, since = seen.job.beat, _beat_age(seen, now)
    return None if beat is None or since is None or beat.lease_age_seconds is None else beat.lease_age_seconds + since


def _completed(seen: SeenJob, _: float) -> float | None:
    return None if seen.totals is None else sum(each.epochs for each in seen.totals.queries.values())


def _failed(seen: SeenJob, _: float) -> float | None:
    return None if seen.totals is None else seen.totals.failed_tries


def _in_progress(seen: SeenJob, _: float) -> float:
    return sum(each.beat.epoch > each.beat.finished for each in _queries(seen) if each.beat is not None)


def _all_checkpoints(seen: SeenJob, now: float) -> float | None:
    completed, failed = _completed(seen, now), _failed(seen, now)
    return None if completed is None or failed is None else completed + failed + _in_progress(seen, now)


def _last(seen: SeenJob) -> DoneCheckpoint | None:
    newest = () if seen.totals is None else (each.last for each in seen.totals.queries.values())
    return max(newest, key=lambda each: each.number, default=None)


def _last_duration(seen: SeenJob, _: float) -> float | None:
    return None if (last := _last(seen)) is None else last.duration_ms


def _last_number(seen: SeenJob, _: float) -> float | None:
    return None if (last := _last(seen)) is None else last.number


def _last_at(seen: SeenJob, _: float) -> float | None:
    return None if (last := _last(seen)) is None else round(last.at * 1000)


def _restarts(seen: SeenJob, _: float) -> float | None:
    return None if seen.totals is None else seen.totals.restarts


_OF_JOBS: Final = (
    _JobSeries(
        "uptime", "Milliseconds since the driver of the running job has begun; 0 if it does not run.", _uptime_ms
    ),
    _JobSeries("numRestarts", "Restarts of the job by its supervisor, over all its starts.", _restarts),
    _JobSeries("totalNumberOfCheckpoints", "Epochs that are done, have failed, or are under way.", _all_checkpoints),
    _JobSeries("numberOfInProgressCheckpoints", "Epochs that are under way.", _in_progress),
    _JobSeries("numberOfCompletedCheckpoints", "Epochs that are done in all their sinks.", _completed),
    _JobSeries("numberOfFailedCheckpoints", "Tries of an epoch that have failed.", _failed),
    _JobSeries("lastCheckpointDuration", "Milliseconds that the newest done epoch has taken.", _last_duration),
    _JobSeries("lastCompletedCheckpointId", "The number of the newest done epoch among all of the job.", _last_number),
    _JobSeries(
        "lastCheckpointCompletedTimestamp", "When the newest epoch was done, in milliseconds since 1970.", _last_at
    ),
    _JobSeries("supervisor_restarts", "Restarts of the job by its supervisor.", _restarts, CounterMetricFamily),
    _JobSeries(
        "failures",
        "Failures of the job that its supervisor has recorded.",
        lambda seen, _: None if seen.totals is None else seen.totals.failures,
        CounterMetricFamily,
    ),
    _JobSeries("beat_age_seconds", "Seconds since the living driver's last report.", _beat_age),
    _JobSeries(
        "lease_age_seconds",
        "Seconds since the driver has renewed its lease; no series for a lock on a disk.",
        _lease_age,
    ),
)

# --- values of a query -------------------------------------------------------------------------------------


def _total(of: Callable[[QueryTotals], float]) -> Callable[[_SeenQuery, float], float | None]:
    return lambda query, _: None if query.totals is None else of(query.totals)


def _reported(of: Callable[[QueryBeat], float | None]) -> Callable[[_SeenQuery, float], float | None]:
    return lambda query, _: None if query.beat is None else of(query.beat)


def _now(of: Callable[[QueryBeat], float | None]) -> Callable[[_SeenQuery, float], float | None]:
    """What only a driver that runs can tell: the last report of a dead one does not say what is now."""
    reported = _reported(of)
    return lambda query, now: reported(query, now) if query.job.job.state is State.RUNNING else None


def _open_age(query: _SeenQuery, now: float) -> float | None:
    """Also between two drivers: what is prepared waits for the next one."""
    if query.beat is None or query.job.job.beat is None:
        return None
    since_beat = max(now - query.job.job.beat.at, 0.0)
    return 0.0 if query.beat.open_seconds is None else query.beat.open_seconds + since_beat


_OF_QUERIES: Final = (
    _QuerySeries(
        "numRecordsIn",
        "Rows that the sources gave to done epochs, where they were counted: not in a recovery or an older release.",
        _total(lambda each: each.read),
    ),
    _QuerySeries(
        "numRecordsOut", "Rows that became visible, over all sinks and starts.", _total(lambda each: each.rows)
    ),
    _QuerySeries(
        "numRecordsOutPerSecond", "Rows that became visible, per second.", _now(lambda each: each.rows_per_second)
    ),
    _QuerySeries(
        "pendingRecords",
        "Lag: rows in the sources that are not done yet; no series if no source can tell.",
        _now(lambda each: each.behind),
    ),
    _QuerySeries(
        "pendingCommittables",
        "Transactions that are prepared and not committed yet.",
        _reported(lambda each: each.open_transactions),
    ),
    _QuerySeries(
        "open_transactions_age_seconds",
        "Seconds since the oldest of these transactions was prepared; 0 if there is none.",
        _open_age,
    ),
    _QuerySeries(
        "commits", "Transactions that were committed.", _total(lambda each: each.committed), CounterMetricFamily
    ),
    _QuerySeries(
        "aborts", "Transactions of dead runs that were aborted.", _total(lambda each: each.aborted), CounterMetricFamily
    ),
    _QuerySeries(
        "redos",
        "Lost transactions that were written again.",
        _total(lambda each: each.redone),
        CounterMetricFamily,
    ),
    _QuerySeries(
        "dead_letters", "Rows that a sink refused.", _total(lambda each: each.dead_letters), CounterMetricFamily
    ),
    _QuerySeries(
        "rows_shown_again",
        "Rows that a sink without evidence may have shown twice.",
        _total(lambda each: each.shown_again),
        CounterMetricFamily,
    ),
)
