"""The whole demo: add input, kill, restart, and compare every record at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import TypeAlias

import msgspec

from tidegate.core.json_formats import parsed
from tidegate.extras import Extra, require
from tidegate.settings.config import Settings
from tidegate.testing.checker import Batches, CheckerVerdict, DeviationKind, check
from tidegate.testing.demo.driver import DemoFailed, Driver
from tidegate.testing.demo.ends import Ends, FileEnds
from tidegate.testing.demo.feeder import Feeder, Progress, batches_until, complete
from tidegate.testing.demo.footprint import Footprint, footprints
from tidegate.testing.demo.places import COUNTS, LINES, Gate, Places
from tidegate.testing.demo.poison import Poisoned, PoisonedEnds, look_at_poison, with_poison
from tidegate.testing.demo.schedule import Kill, Phase, plan_kills
from tidegate.testing.demo.text import cut, generated, read_folder

_LINES_PER_BATCH = 400
_BATCHES_AT_MOST = 26
_PHASE_SECONDS = 150.0
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The user's choices. `folder` must exist and be empty. `gate`: on for tidegate, off for plain PySpark.

    `kafka`: input and output are topics of a broker that runs in `folder` during the demo.

    `poison`: the input has one record that a table refuses. It must end up in the dead letters.

    `settings`: the job's settings; `checkpointing.dir` is the one in `Places`.
    """

    folder: Path
    crashes: int
    seed: int
    gate: Gate
    kafka: bool
    lines: int
    text_folder: Path | None
    poison: bool = False
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The result of the demo. Records are lines; lost, duplicated and so on count the records of all three sinks."""

    ok: bool
    gate: str
    seed: int
    records_in: int
    records_out: int
    lost: int
    duplicated: int
    wrong_counts: int
    invented: int
    torn: int
    kills: int
    kills_by_phase: dict[str, int]
    epochs: int
    aborted: int
    redone: int
    epoch_ms: float | None
    seconds: float
    counterexample: str
    dead_letters: int | None = None


@dataclass(frozen=True, slots=True)
class Preparation:
    """A step before the first driver starts takes long, such as a download. `line`: what to show to the user."""

    line: str


@dataclass(frozen=True, slots=True)
class Began:
    """The input was cut into batches. Each batch is one file, and usually one epoch of each query."""

    lines: int
    batches: int
    kills: tuple[Kill, ...]


@dataclass(frozen=True, slots=True)
class Started:
    """A driver was started: the first one, or the next one after a kill."""

    run: int


@dataclass(frozen=True, slots=True)
class DemoProgress:
    """Progress: `fed` batches were added to the input, and both queries have completed `complete` of them."""

    fed: int
    complete: int


@dataclass(frozen=True, slots=True)
class Killed:
    """A driver was killed. According to their files, the queries in `queries` were in the planned phase."""

    number: int
    kill: Kill
    queries: tuple[str, ...]


Event: TypeAlias = Preparation | Began | Started | DemoProgress | Killed


def run_demo(options: Options, tell: Callable[[Event], None]) -> DemoReport:
    """Run the demo in `options.folder` and compare every record. No process is left behind, for any end of the demo.

    Raises DemoFailed if it cannot run, TidegateError for invalid options.
    """
    begun = time.monotonic()
    texts = generated(options.lines, options.seed) if options.text_folder is None else read_folder(options.text_folder)
    batches = cut(with_poison(texts) if options.poison else texts, _batches(len(texts), options.crashes))
    kills = plan_kills(options.seed, options.crashes, len(batches))
    tell(Began(len(texts), len(batches), tuple(kills)))
    places = Places(options.folder)
    ends = _ends(options, places, tell)
    with ends.ready():
        with _Campaign(options, places, ends, batches, tell) as campaign:
            for kill in kills:
                campaign.run_until_killed(kill)
            campaign.run_to_the_end()
        sinks = ends.read()
    copied, counted = (campaign.epochs_of(query) for query in (LINES, COUNTS))
    report = campaign.report(check(copied, counted, sinks), len(sinks.lines), time.monotonic() - begun)
    return _with_poison(report, look_at_poison(places, [*chain(*batches)])) if options.poison else report


def _with_poison(report: DemoReport, found: Poisoned) -> DemoReport:
    ok, told = report.ok and not found.flaw, report.counterexample or found.flaw
    return replace(report, ok=ok, dead_letters=found.dead_letters, counterexample=told)


def _ends(options: Options, places: Places, tell: Callable[[Event], None]) -> Ends:
    if options.kafka:
        require(Extra.KAFKA)
        from tidegate.testing.demo.topic_ends import TopicEnds  # with the Kafka client, which no help waits for

        return TopicEnds(places, lambda line: tell(Preparation(line)), options.gate)
    return PoisonedEnds(places) if options.poison else FileEnds(places)


def _batches(lines: int, crashes: int) -> int:
    """The number of batches: enough to spread the kills over different epochs, few enough for a short demo."""
    return max(2 * crashes + 2, min(_BATCHES_AT_MOST, lines // _LINES_PER_BATCH))


class _DemoFigures(msgspec.Struct, frozen=True):
    aborted: int = 0
    redone: int = 0


@dataclass(slots=True)
class _Ghosts:
    """Drivers whose Python process was killed and whose JVM may still run."""

    drivers: list[Driver] = field(default_factory=list[Driver])

    def forget_the_gone(self) -> None:
        self.drivers = [driver for driver in self.drivers if not driver.is_gone()]


class _Campaign:
    """Runs the drivers one after the other, and adds their input."""

    def __init__(
        self, options: Options, places: Places, ends: Ends, batches: Batches, tell: Callable[[Event], None]
    ) -> None:
        self._places = places
        self._ends = ends
        self._options = options
        self._batches = batches
        self._tell = tell
        self._feeder = Feeder(ends, batches)
        self._queries = list(footprints(self._places, options.gate))
        self._runs = 0
        self._driver: Driver | None = None
        self._ghosts = _Ghosts()
        self._kills: list[Kill] = []
        self._moved = DemoProgress(0, 0)

    def __enter__(self) -> _Campaign:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        drivers = [*self._ghosts.drivers, *([] if self._driver is None else [self._driver])]
        for driver in drivers:
            driver.destroy(wait_seconds=5)

    def run_until_killed(self, kill: Kill) -> None:
        """Start a driver, let it reach the chosen place, check this in its files, and kill it.

        It gets no batch after the chosen epoch's batch, so that it cannot pass the epoch.
        """
        driver = self._start(kill)
        self._work(
            driver,
            lambda: self._is_held(kill),
            lambda progress: batches_until(kill.epoch, progress, self._feeder.fed, self._ends.ahead),
        )
        queries = self._in_phase(kill)
        if not queries:
            raise DemoFailed(f"epoch {kill.epoch} is not where {kill.point} says ({kill.phase.value})")
        if kill.jvm_too:
            driver.kill()
        else:
            driver.kill_python()
            self._ghosts.drivers.append(driver)
        self._driver = None
        self._kills.append(kill)
        self._tell(Killed(len(self._kills), kill, queries))

    def run_to_the_end(self) -> None:
        """Start a driver without a kill, add the remaining input, and end the driver when all input is processed."""
        driver = self._start(None)
        self._work(
            driver,
            lambda: complete(self._progress()) == len(self._batches),
            lambda progress: complete(progress) + self._ends.ahead,
        )
        driver.end()

    def epochs_of(self, uid: str) -> Batches:
        """The lines of each epoch of a query. Usually an epoch is one batch.

        If a run ends after the file source wrote its own log and before Spark wrote the offsets, the next epoch has
        two.
        """
        (query,) = (query for query in self._queries if query.uid == uid)
        return self._ends.epochs([query.positions[epoch] for epoch in sorted(query.positions)])

    def report(self, verdict: CheckerVerdict, records_out: int, seconds: float) -> DemoReport:
        figures = [self._figures(run) for run in range(1, self._runs + 1)]
        times = [ms for query in self._queries for ms in query.epoch_ms.values()]
        phases = Counter(kill.phase for kill in self._kills)
        return DemoReport(
            ok=verdict.exact,
            gate=self._options.gate.value,
            seed=self._options.seed,
            records_in=sum(len(batch) for batch in self._batches),
            records_out=records_out,
            lost=verdict.count(DeviationKind.LOST),
            duplicated=verdict.count(DeviationKind.DUPLICATED),
            wrong_counts=verdict.count(DeviationKind.WRONG_COUNT),
            invented=verdict.count(DeviationKind.INVENTED),
            torn=verdict.count(DeviationKind.TORN),
            kills=len(self._kills),
            kills_by_phase={phase.name: phases[phase] for phase in Phase},
            epochs=sum(query.complete() for query in self._queries),
            aborted=sum(each.aborted for each in figures),
            redone=sum(each.redone for each in figures),
            epoch_ms=round(median(times), 1) if times else None,
            seconds=round(seconds, 1),
            counterexample=verdict.counterexample(),
        )

    def _start(self, kill: Kill | None) -> Driver:
        self._runs += 1
        for query in self._queries:
            query.since = time.time()
        self._driver = Driver(
            self._places, self._ends, self._runs, self._options.gate, settings=self._options.settings, kill=kill
        )
        self._tell(Started(self._runs))
        return self._driver

    def _work(self, driver: Driver, until: Callable[[], bool], batches: Callable[[Sequence[Progress]], int]) -> None:
        """Wait until the condition is true, and meanwhile add up to `batches` batches.

        Raises DemoFailed without progress.
        """
        end = time.monotonic() + _PHASE_SECONDS
        while not until():
            driver.raise_if_ended()
            if time.monotonic() > end:
                raise DemoFailed(f"nothing came within {_PHASE_SECONDS:g} s: {self._moved}\n{driver.last_words()}")
            self._ghosts.forget_the_gone()
            progress = self._progress()
            self._feeder.feed(batches(progress))
            if (moved := DemoProgress(self._feeder.fed, complete(progress))) != self._moved:
                self._moved = moved
                self._tell(self._moved)
                end = time.monotonic() + _PHASE_SECONDS
            time.sleep(_LOOK_SECONDS)

    def _progress(self) -> list[Progress]:
        return [self._progress_of(query) for query in self._queries]

    def _progress_of(self, query: Footprint) -> Progress:
        """Complete epochs and complete batches of a query, from one reading of its files.

        They may differ, see `epochs_of`.
        """
        epochs = query.complete()
        return Progress(epochs, self._ends.batches_to(query.positions[epochs - 1]) if epochs else 0)

    def _is_held(self, kill: Kill) -> bool:
        """True if the driver waits at the place of the kill, with one query or both.

        Each worker process counts failpoints on its own, so only a first task waits. In plain PySpark both queries wait
        only in phase C. In D and E none waits, because no code of the program runs there: the files show the phase.
        """
        if self._options.gate is Gate.off and kill.phase in (Phase.D, Phase.E):
            return bool(self._in_phase(kill))
        first, second = (self._places.held(self._runs, query).exists() for query in (1, 2))
        if not kill.both or (self._options.gate is Gate.off and kill.phase is not Phase.C):
            return first
        in_task = kill.point.startswith("task.")
        return first and (second or (in_task and len(self._in_phase(kill)) == len(self._queries)))

    def _in_phase(self, kill: Kill) -> tuple[str, ...]:
        return tuple(query.uid for query in self._queries if kill.phase in query.phases(kill.epoch))

    def _figures(self, run: int) -> _DemoFigures:
        try:
            return parsed(self._places.figures(run).read_bytes(), _DemoFigures)
        except FileNotFoundError:
            return _DemoFigures()
