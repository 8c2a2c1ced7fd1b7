"""A bank of four queries is killed by a seeded plan. The money in each of its checkpoints is counted, and each payment.

Each life has another alignment. It is killed at a place of the protocol, while a checkpoint holds its files, or at any
moment. At the end the job goes back to some of its checkpoints, is killed on the way, and must come out exactly.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.drivers import CampaignFailed
from tests.campaign.ending import failure_lines, finding_words, flaws_kept
from tests.crash.bank import Bank, Settings, paid
from tests.support.driver import Driver
from tidegate import Restore

PLACES = ("compute", "sync", "prepared", "commits.seen", "decision", "commit", "done", "finished", "gc.clean")
MODES: dict[str, Settings] = {
    "aligned": {},
    "unaligned": {"checkpointing_unaligned": True},
    "aligned at first": {"checkpointing_unaligned": True, "checkpointing_aligned_timeout": 0.2},
}
RESTORES = 6
_LIVES_BETWEEN_COUNTS = 8
_AT_MOST_SECONDS = 20.0
_LOOK_SECONDS = 0.02
_CATCH_UP_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """What the user chose. `folder`: an empty one. `servers`: the brokers of the channels; empty for embedded ones."""

    folder: Path
    kills: int
    seed: int
    servers: str = ""

    @property
    def command(self) -> str:
        return f"./dev campaign graph --kills {self.kills} --seed {self.seed}{' --kafka' if self.servers else ''}"


@dataclass(slots=True)
class GraphReport:
    """What was done and found. `flaws`: without any nothing is wrong."""

    options: GraphOptions
    kills: int = 0
    checkpoints: int = 0
    flying: int = 0
    payments: int = 0
    restores: int = 0
    modes: Counter[str] = field(default_factory=Counter[str])
    found: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("torn", "lost", "repeated"), 0))
    history: list[str] = field(default_factory=list[str])
    flaws: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    seconds_in: dict[str, float] = field(default_factory=dict[str, float])

    def as_text(self) -> str:
        modes = ", ".join(f"{count} {mode}" for mode, count in sorted(self.modes.items()))
        lines = [
            f"{'channels over Kafka' if self.options.servers else 'embedded channels'}, "
            f"seed {self.options.seed}: {self.kills} kills ({modes}), {self.restores} restores, killed on the way",
            f"{self.checkpoints} checkpoints counted, {self.flying} with money in channels, "
            f"{self.payments} payments compared: {finding_words(self)}",
            f"{self.seconds / 60:.1f} minutes",
        ]
        return "\n".join([*lines, *failure_lines(self, self.history)])


def run_campaign(options: GraphOptions, tell: Callable[[str], None]) -> GraphReport:
    """Kill by the seeded plan; never raises for what the kills bring to light."""
    report = GraphReport(options)
    with flaws_kept(report, AssertionError):
        GraphCampaign(report, tell).run()
    return report


class GraphCampaign:
    """One campaign. It writes into its report what it does and finds."""

    def __init__(self, report: GraphReport, tell: Callable[[str], None]) -> None:
        self.report = report
        self._bank = Bank(report.options.folder, report.options.servers)
        self._rng = random.Random(report.options.seed)
        self._tell_user = tell
        self._to_count: set[int] = set()

    def run(self) -> None:
        while self.report.kills < self.report.options.kills:
            self._life()
            if self.report.kills % _LIVES_BETWEEN_COUNTS == 0:
                self._count()
        self._end_well(None)
        self._count()
        self._compare_payments()
        checkpoints = self._bank.checkpoints()
        for number in self._rng.sample(checkpoints, min(RESTORES, len(checkpoints))):
            if number in self._bank.checkpoints():
                self._go_back(number)

    def _tell(self, line: str) -> None:
        self.report.history.append(line)
        self._tell_user(line)

    # --- one life -------------------------------------------------------------------------------------------

    def _life(self) -> None:
        mode, strike = self._rng.choice(list(MODES)), self._rng.choice((*PLACES, "checkpoint", "moment"))
        when = f"{strike}.{self._rng.choice(('before', 'after'))}" if strike in PLACES else strike
        failpoints = f"{when}@{self._epoch() + self._rng.randint(1, 4)}=crash" if strike in PLACES else ""
        before = self._bank.checkpoints()
        with self._bank.fed(), self._bank.driver(MODES[mode], "forever", failpoints=failpoints) as driver:
            self._await(driver, strike)
            self._demand_struck(driver)
            driver.kill()
        self.report.kills += 1
        self.report.modes[mode] += 1
        made = [each for each in self._bank.checkpoints() if each not in before]
        self._to_count.update(made)
        self._tell(f"{self.report.kills:4} {mode:16} kill at {when}, {len(made)} checkpoints")

    def _await(self, driver: Driver, strike: str) -> None:
        """Until it has killed itself, or is to be killed."""
        end = time.monotonic() + _AT_MOST_SECONDS
        before, held = self._epoch(), self._held()
        while driver.process.poll() is None and time.monotonic() < end:
            if strike == "checkpoint" and self._held() - held:
                time.sleep(self._rng.uniform(0, 0.2))
                return
            if strike == "moment" and self._epoch() > before:
                time.sleep(self._rng.uniform(0, 8))
                return
            time.sleep(_LOOK_SECONDS)

    def _demand_struck(self, driver: Driver) -> None:
        code = driver.process.poll()
        if code not in (None, -9):
            raise CampaignFailed(f"the driver has ended by itself ({code}):\n{driver.tail()}")

    def _epoch(self) -> int:
        """The newest epoch of the first query that is done."""
        done = self._bank.job / "queries" / "withdraw" / "g1" / "ledger" / "done"
        return max((int(each.name) for each in _files(done) if each.name.isdigit()), default=-1)

    def _held(self) -> set[str]:
        """The folders of the checkpoints, also of one under way."""
        return {each.name for each in _files(self._bank.job / "checkpoints" / "held")}

    # --- what must hold -------------------------------------------------------------------------------------

    def _count(self) -> None:
        """The money in the new checkpoints that are still there."""
        numbers = sorted(self._to_count & set(self._bank.checkpoints()))
        self._to_count.clear()
        for number, money in (self._bank.money(*numbers) if numbers else {}).items():
            self.report.checkpoints += 1
            self.report.flying += money.flying > 0
            self.report.found["torn"] += money.excess != 0
            if money.excess:
                self.report.flaws.append(f"checkpoint {number} has {money.excess} too much: {money}")

    def _compare_payments(self) -> None:
        """Each order is paid once, less the fee."""
        found, due = paid(self._bank.checkpoints_folder), Counter(self._bank.ordered)
        self.report.payments = due.total()
        self.report.found |= {"lost": (due - found).total(), "repeated": (found - due).total()}
        if due != found:
            self.report.flaws.append(f"not paid: {list(due - found)[:5]}; paid twice: {list(found - due)[:5]}")

    def _go_back(self, number: int) -> None:
        """To a checkpoint; killed on the way."""
        mode = self._rng.choice(list(MODES))
        with self._bank.driver(MODES[mode], "caught-up", self._bank.back_to(number)) as driver:
            end = time.monotonic() + self._rng.uniform(4, 25)
            while driver.process.poll() is None and time.monotonic() < end:
                time.sleep(_LOOK_SECONDS)
            driver.kill()
        self._end_well(self._bank.back_to(number))
        newest = self._bank.checkpoints()[-1]
        money = self._bank.money(newest)[newest]
        self.report.restores += 1
        if money.excess or money.flying:
            self.report.flaws.append(f"back to checkpoint {number}, and at the end: {money}")
        self._tell(f"     back to checkpoint {number}: {money}")

    def _end_well(self, back: Restore | None) -> None:
        before = self._bank.checkpoints()
        with self._bank.driver(MODES["aligned"], "caught-up", back) as driver:
            if driver.wait(_CATCH_UP_SECONDS):
                raise CampaignFailed(f"the job does not come to its end:\n{driver.tail()}")
        self._to_count.update(each for each in self._bank.checkpoints() if each not in before)


def _files(folder: Path) -> Iterator[Path]:
    return folder.iterdir() if folder.is_dir() else iter(())
