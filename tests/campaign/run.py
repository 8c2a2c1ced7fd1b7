"""The whole campaign: strike by plan, let the job go on each time, and compare every record."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.checker import FORBIDDEN, Kind, check
from tests.campaign.drivers import CampaignFailed, Stable
from tests.campaign.ending import flaws_kept
from tests.campaign.field import ROWS_AT_LEAST, Field
from tests.campaign.left_over import left_over
from tests.campaign.outputs import read_outputs
from tests.campaign.places import Places
from tests.campaign.schedule import At, Step, plan, plan_common, plan_remote, plan_store
from tests.campaign.servers import servers
from tests.campaign.situations import COMMON_PLACES, exact_places, point_of, remote_places, store_places
from tests.campaign.stores.named import STORES, serve
from tests.campaign.striking import carry_out
from tidegate.core.levels import Level
from tidegate.storages.schemes import Scheme

_CHECK_EVERY = 25
_EPOCHS_PER_STEP = 3
"""About so many a step needs, with those that let the job catch up."""

_EPOCHS_AT_LEAST = 26
"""Then the first records have been cleaned up."""

_MORE_EPOCHS_AT_MOST = 25
"""Records go twenty epochs together, counted from the start of the driver: after the last kill of a short plan for a
store so many more may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose. `folder` must exist and be empty."""

    folder: Path
    kills: int
    seed: int
    minutes: float | None = None
    level: Level = Level.EXACTLY_ONCE
    common: bool = False
    storage: Scheme = Scheme.FILE
    cluster: bool = False
    store: str | None = None
    records: int | None = None

    @property
    def command(self) -> str:
        """What repeats this campaign."""
        if self.store is not None:
            records = "" if self.records is None else f" --records {self.records}"
            return f"./dev campaign {self.store} --kills {self.kills} --seed {self.seed}{records}"
        level = "" if self.level is Level.EXACTLY_ONCE else f" --level {self.level.value}"
        common = " --common" if self.common else ""
        storage = "" if self.storage is Scheme.FILE else f" --storage {self.storage.value}"
        storage += " --cluster" if self.cluster else ""
        return f"./dev campaign crash --kills {self.kills} --seed {self.seed}{level}{common}{storage}"

    def plan(self) -> list[Step]:
        """What is struck; where all levels pass, if the level is not exactly-once."""
        if self.store is not None:
            return plan_store(self.seed, self.kills, self.places())
        common = self.common or self.level is not Level.EXACTLY_ONCE
        if self.storage is not Scheme.FILE and not common:
            return plan_remote(self.seed, self.kills, cluster=self.cluster)
        return plan_common(self.seed, self.kills) if common else plan(self.seed, self.kills)

    def places(self) -> Sequence[str]:
        """The places that have to be passed."""
        if self.store is not None:
            return store_places(STORES[self.store].points)
        if self.common or self.level is not Level.EXACTLY_ONCE:
            return COMMON_PLACES
        return exact_places() if self.storage is Scheme.FILE else remote_places(cluster=self.cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the history."""

    number: int
    step: str
    place: str | None
    action: str | None
    phase: str
    target: str
    killed: bool
    epoch: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class Report:
    """How it ended; `flaws` says what is wrong, in the order of its finding, and is empty when nothing is."""

    options: Options
    planned: int
    history: list[Entry] = field(default_factory=list[Entry])
    passed: Counter[str] = field(default_factory=Counter[str])
    seconds_in: dict[str, float] = field(default_factory=dict[str, float])
    found: dict[str, int] = field(default_factory=dict[str, int])
    left: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    flaws: list[str] = field(default_factory=list[str])
    epochs: int = 0
    records: int = 0
    drivers: int = 0
    aborted: int = 0
    redone: int = 0
    seconds: float = 0.0

    @property
    def kills(self) -> int:
        return sum(1 for entry in self.history if entry.killed)

    def count(self, what: Callable[[Entry], object], *, killed: bool) -> Counter[str]:
        """The entries by `what`: the kills, or the other strikes."""
        return Counter(str(what(entry)) for entry in self.history if entry.killed is killed)

    def never_hit(self) -> list[str]:
        """The failpoints of which nobody has passed any place."""
        points = dict.fromkeys(point_of(place) for place in self.options.places())
        hit = {point_of(place) for place in self.passed}
        return [point for point in points if point not in hit]


def run_campaign(options: Options, tell: Callable[[Entry], None], steps: Sequence[Step] | None = None) -> Report:
    """Strike by the seeded plan (or by `steps`) in `options.folder`; never raises for what the strikes bring to light.

    No process is left behind, however it ends.
    """
    todo = options.plan() if steps is None else list(steps)
    report = Report(options=options, planned=len(todo))
    places = Places(options.folder)
    level = None if options.level is Level.EXACTLY_ONCE else options.level.value
    with (
        servers(options.storage, options.folder, cluster=options.cluster),
        serve(options.store, options.folder) as store,
        flaws_kept(report) as begun,
        Stable(places, level=level) as stable,
    ):
        rows = ROWS_AT_LEAST if options.records is None else options.records // (_EPOCHS_PER_STEP * len(todo))
        chance = random.Random(options.seed)
        ground = Field(places, stable, chance, store=store, rows_per_file=max(ROWS_AT_LEAST, rows))
        try:
            strike_all(todo, ground, report, tell, begun)
        finally:
            report.drivers = stable.made
            report.passed, report.seconds_in = ground.strikes.passed(), dict(ground.seconds)
            report.epochs = len(ground.files)
    report.flaws += [f"no process has passed failpoint {point}" for point in report.never_hit()]
    return report


def strike_all(
    todo: Sequence[Step], ground: Field, report: Report, tell: Callable[[Entry], None], begun: float
) -> None:
    """All steps, with a comparison now and then; at the end the source is drained and everything is compared."""
    minutes = report.options.minutes
    ground.go()
    for number, step in enumerate(todo, start=1):
        if minutes is not None and time.monotonic() - begun > 60 * minutes:
            break
        started = time.monotonic()
        try:
            struck = carry_out(step, ground)
        except CampaignFailed as failed:
            raise CampaignFailed(f"step {number}, {step}: {failed}") from failed
        at = step if isinstance(step, At) else None
        entry = Entry(
            number=number,
            step=str(step),
            place=None if at is None else at.place,
            action=None if at is None else at.action.value,
            phase=struck.phase.name,
            target=struck.target,
            killed=struck.killed,
            epoch=ground.newest,
            seconds=round(time.monotonic() - started, 2),
        )
        report.history.append(entry)
        tell(entry)
        if number % _CHECK_EVERY == 0:
            ground.catch_up()
            _compare(ground, report)
    ground.feed_slowly(max(1, _EPOCHS_AT_LEAST - len(ground.files)))
    while sum(map(len, ground.files)) < (report.options.records or 0):
        ground.feed_slowly(1)
    for _ in range(_MORE_EPOCHS_AT_MOST):
        if report.options.store is None or "gc.record.after" in ground.strikes.passed():
            break
        ground.feed_slowly(1)
    ground.stop()
    _compare(ground, report)
    _check_threads(ground.places)
    if not ground.places.job.is_local:
        report.left = left_over(ground.places.job.parent.parent)
    if report.options.store is not None:
        report.left = STORES[report.options.store].left_over()
        report.flaws += [f"left in the store: {name}" for names in report.left.values() for name in names]
    report.aborted, report.redone = ground.stable.sum_of("aborted"), ground.stable.sum_of("redone")


def _check_threads(places: Places) -> None:
    """Whatever dies, a thread of tidegate's ends with its error kept, never with a traceback on the terminal."""
    for log in sorted(places.log(0).parent.iterdir()):
        if "Exception in thread tidegate" in log.read_text(errors="replace"):
            raise CampaignFailed(f"a thread of tidegate's died with a traceback: {log.name}")


def _compare(ground: Field, report: Report) -> None:
    """Every record that is visible now with every file that is through; raises for what the level forbids."""
    outputs = read_outputs(ground.places)
    verdict = check(ground.files, outputs, report.options.level)
    report.records, report.found = outputs.records, {kind.value: verdict.count(kind) for kind in Kind}
    if verdict.broken:
        forbidden = sum(verdict.count(kind) for kind in FORBIDDEN[report.options.level])
        lines = "\n".join(str(finding) for finding in verdict.broken[:12])
        raise CampaignFailed(f"{forbidden} findings in {outputs.records} records:\n{lines}")
