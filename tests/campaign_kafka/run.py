"""The whole campaign: feed, strike by plan, let the job go on each time; at the end every record is compared."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from tests.campaign.drivers import CampaignFailed, Stable
from tests.campaign.ending import flaws_kept
from tests.campaign.places import QUERIES, ROWS, SUMS, Places
from tests.campaign_kafka.checker import Kind, Verdict, check_rows, check_sums
from tests.campaign_kafka.epochs import Epochs
from tests.campaign_kafka.feeder import Feeder
from tests.campaign_kafka.ground import Ground
from tests.campaign_kafka.reading import read_input, read_rows, read_sums
from tests.campaign_kafka.records import Records
from tests.campaign_kafka.scene import PARTITIONS, Scene
from tests.campaign_kafka.schedule import Kill, Step, plan
from tests.campaign_kafka.striking import carry_out
from tests.campaign_kafka.tool import open_transactions
from tidegate.core.errors import TidegateError
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import NotReadToTheEnd, make_topic

_FED_PER_SECOND = 5000.0
_FIRST_SHARE = 0.05
_BROKER_SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user chose. `folder` must exist and be empty."""

    folder: Path
    kills: int
    records: int
    seed: int
    brokers: int = 1
    minutes: float | None = None

    @property
    def command(self) -> str:
        """What repeats this campaign."""
        brokers = "" if self.brokers == 1 else f" --brokers {self.brokers}"
        return f"./dev campaign kafka --kills {self.kills} --records {self.records} --seed {self.seed}{brokers}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the history; `read`: how many records were through when the job had gone on."""

    number: int
    step: str
    victim: str
    killed: bool
    phase: str
    read: int
    seconds: float


@dataclass(slots=True, kw_only=True)
class Report:
    """How it ended; `flaws` says what is wrong, in the order of its finding, and is empty when nothing is."""

    options: Options
    planned: int
    history: list[Entry] = field(default_factory=list[Entry])
    flaws: list[str] = field(default_factory=list[str])
    found: dict[str, int] = field(default_factory=dict[str, int])
    compared: int = 0
    input: int = 0
    epochs: int = 0
    drivers: int = 0
    aborted: int = 0
    redone: int = 0
    open: int | None = None
    started_again: dict[str, int] = field(default_factory=dict[str, int])
    seconds_in: dict[str, float] = field(default_factory=dict[str, float])
    seconds: float = 0.0

    @property
    def kills(self) -> int:
        return sum(entry.killed for entry in self.history)

    def count(self, what: Callable[[Entry], str], *, killed: bool) -> Counter[str]:
        """The entries by `what`: the kills, or the pauses."""
        return Counter(what(entry) for entry in self.history if entry.killed is killed)


def run_campaign(options: Options, tell: Callable[[str], None]) -> Report:
    """Strike by the seeded plan in `options.folder`; never raises for what the strikes bring to light.

    No process is left behind, however it ends.
    """
    steps = plan(options.seed, options.kills)
    report = Report(options=options, planned=len(steps))
    with (
        flaws_kept(report, TidegateError, KafkaException, NotReadToTheEnd) as begun,
        Broker.start(options.folder / "broker", brokers=options.brokers, settings=_BROKER_SETTINGS) as broker,
    ):
        _campaign(steps, broker, report, tell, begun)
    return report


def _campaign(steps: list[Step], broker: Broker, report: Report, tell: Callable[[str], None], begun: float) -> None:
    options = report.options
    places, servers = Places(options.folder), broker.servers
    names = {name: make_topic(servers, PARTITIONS, name=name) for name in ("input", "rows", "sums", "mirror")}
    scene = Scene(servers=servers, **names)
    scene.save(places)
    records = Records.draw(options.records, options.seed)
    with (
        Stable(places, level=None, program="tests.campaign_kafka.program") as stable,
        Feeder(servers, scene.input, records, _FED_PER_SECOND) as feeder,
        Epochs(places, scene.input) as epochs,
    ):
        ground = Ground(places, stable, random.Random(options.seed), broker, feeder, epochs)
        try:
            _strike_all(steps, ground, report, tell, begun)
        finally:
            report.drivers, report.seconds_in = stable.made, dict(ground.seconds)
            report.aborted, report.redone = stable.sum_of("aborted"), stable.sum_of("redone")
            report.epochs = sum(epochs.newest(query) + 1 for query in QUERIES)
            report.started_again = dict(ground.started_again)
    tell("comparing")
    begun_comparing = time.monotonic()
    _compare(scene, places, records, epochs, report)
    report.seconds_in["comparing"] = time.monotonic() - begun_comparing
    still_open = open_transactions(servers)
    report.open = len(still_open)
    report.flaws += [f"still open: {each}" for each in still_open]


def _strike_all(steps: list[Step], ground: Ground, report: Report, tell: Callable[[str], None], begun: float) -> None:
    """All steps, each with its share of the input: half of it before the strike, half when the job has to go on."""
    options = report.options
    first = max(1, int(options.records * _FIRST_SHARE))
    half = max(1, (options.records - first) // (2 * len(steps))) if steps else 0
    ground.go()
    ground.go_on(first)
    for number, step in enumerate(steps, start=1):
        if options.minutes is not None and time.monotonic() - begun > 60 * options.minutes:
            break
        started = time.monotonic()
        ground.feeder.release(half)
        try:
            phase = carry_out(step, ground)
            ground.go_on(half)
        except CampaignFailed as failed:
            raise CampaignFailed(f"step {number}, {step}: {failed}") from failed
        entry = Entry(
            number=number,
            step=str(step),
            victim=step.victim.value,
            killed=isinstance(step, Kill),
            phase=phase.name,
            read=ground.read_to(),
            seconds=round(time.monotonic() - started, 2),
        )
        report.history.append(entry)
        tell(f"{number:4} {entry.phase} {entry.read:8} read {entry.seconds:7.2f} s  {entry.step}")
    tell("all strikes are done, waiting for the rest of the input")
    ground.feeder.release_all()
    with ground.timed("for the rest of the input"):
        ground.stop()


def _compare(scene: Scene, places: Places, records: Records, epochs: Epochs, report: Report) -> None:
    """Every record that a read_committed reader sees, up to the high watermark, with every record of the input."""
    given, flaws = read_input(scene, records)
    report.input = int((given.partition >= 0).sum())
    report.flaws += flaws
    for query in QUERIES:
        cuts = epochs.cuts(query)
        report.flaws += [f"{query}: epoch {epoch} was done and not seen" for epoch in epochs.missing(query)]
        report.flaws += [f"{query}: epoch {epoch} ends before the one before it" for epoch in cuts.backwards()]
    rows = check_rows(given, epochs.cuts(ROWS), read_rows(scene, places))
    sums = check_sums(given, epochs.cuts(SUMS), read_sums(scene))
    _take(report, rows)
    _take(report, sums)


def _take(report: Report, verdict: Verdict) -> None:
    report.compared += verdict.compared
    report.flaws += verdict.examples
    for kind in Kind:
        report.found[kind.value] = report.found.get(kind.value, 0) + verdict.count[kind]
