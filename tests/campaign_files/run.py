"""The whole campaign: strike by plan, let the job go on each time, and compare every row."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.checker import Kind
from tests.campaign.drivers import CampaignFailed, Stable
from tests.campaign.ending import flaws_kept
from tests.campaign.places import Places
from tests.campaign_files.checker import check
from tests.campaign_files.ground import Ground
from tests.campaign_files.outputs import read_outputs
from tests.campaign_files.scene import Scene
from tests.campaign_files.schedule import Step, plan
from tests.campaign_files.striking import carry_out
from tidegate.core.levels import Level

_CHECK_EVERY = 10
_CHANGED = ("ignore", "reread")
_FOUND = (Kind.LOST, Kind.REPEATED, Kind.WRONG, Kind.INVENTED, Kind.TORN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose. `folder` must exist and be empty. `planted`: a bug that must be found."""

    folder: Path
    kills: int
    seed: int
    minutes: float | None = None
    planted: str | None = None

    @property
    def command(self) -> str:
        """What repeats this campaign."""
        planted = "" if self.planted is None else f" --planted '{self.planted}'"
        return f"./dev campaign files --kills {self.kills} --seed {self.seed}{planted}"

    @property
    def changed(self) -> str:
        """What the job does with a file that changed after it was read."""
        return _CHANGED[self.seed % len(_CHANGED)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the history."""

    number: int
    step: str
    kind: str
    kills: int
    acts: tuple[str, ...]
    files: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class Report:
    """How it ended; `flaws` says what is wrong, and is empty when nothing is."""

    options: Options
    planned: int
    history: list[Entry] = field(default_factory=list[Entry])
    flaws: list[str] = field(default_factory=list[str])
    found: dict[str, int] = field(default_factory=dict[str, int])
    refused: dict[str, int] = field(default_factory=dict[str, int])
    let_go: int = 0
    unjudged: int = 0
    files: int = 0
    records: int = 0
    epochs: int = 0
    drivers: int = 0
    seconds_in: dict[str, float] = field(default_factory=dict[str, float])
    seconds: float = 0.0

    @property
    def kills(self) -> int:
        return sum(entry.kills for entry in self.history)

    @property
    def acts(self) -> Counter[str]:
        return Counter(act for entry in self.history for act in entry.acts)


def run_campaign(options: Options, tell: Callable[[Entry], None], steps: Sequence[Step] | None = None) -> Report:
    """Strike by the seeded plan (or by `steps`) in `options.folder`; never raises for what the strikes bring to light.

    No process is left behind, however it ends.
    """
    todo = plan(options.seed, options.kills) if steps is None else list(steps)
    report = Report(options=options, planned=sum(step.kills for step in todo))
    places = Places(options.folder)
    scene = Scene(changed=options.changed, planted=options.planted)
    level = Level.EXACTLY_ONCE.value  # named, so that a driver builds the job anew for each start: its folder moves
    program = "tests.campaign_files.program"
    with flaws_kept(report) as begun, Stable(places, level=level, program=program) as stable:
        ground = Ground(places, stable, random.Random(options.seed), scene)
        try:
            _strike_all(todo, ground, report, tell, begun)
        finally:
            report.drivers, report.seconds_in = stable.made, dict(ground.seconds)
            report.epochs = sum(query.newest("ledger/done") + 1 for query in ground.queries())
            report.refused, report.let_go = dict(ground.refused_with), ground.let_go
            report.files, report.unjudged = len(ground.known.versions), len(ground.known.unjudged)
    return report


def _strike_all(
    todo: Sequence[Step], ground: Ground, report: Report, tell: Callable[[Entry], None], begun: float
) -> None:
    """All steps, with a comparison now and then; at the end everything goes through and is compared."""
    minutes = report.options.minutes
    ground.go()
    ground.feed(2)
    for number, step in enumerate(todo, start=1):
        if minutes is not None and time.monotonic() - begun > 60 * minutes:
            break
        started = time.monotonic()
        try:
            acts = carry_out(step, ground)
        except CampaignFailed as failed:
            raise CampaignFailed(f"step {number}, {step}: {failed}") from failed
        entry = Entry(
            number=number,
            step=str(step),
            kind=type(step.strike).__name__,
            kills=step.kills,
            acts=tuple(acts),
            files=len(ground.known.versions),
            seconds=round(time.monotonic() - started, 2),
        )
        report.history.append(entry)
        tell(entry)
        if number % _CHECK_EVERY == 0:
            ground.catch_up()
            _compare(ground, report)
    ground.stop()
    ground.note()
    _compare(ground, report)


def _compare(ground: Ground, report: Report) -> None:
    """Every row that is visible now with every file; raises for whatever is wrong."""
    outputs = read_outputs(ground.places)
    findings = check(ground.known, outputs)
    report.records = outputs.records
    report.found = {kind.value: sum(each.times for each in findings if each.kind is kind) for kind in _FOUND}
    if findings:
        lines = "\n".join(str(finding) for finding in findings[:12])
        raise CampaignFailed(f"{len(findings)} findings in {outputs.records} rows:\n{lines}")
