"""A real job on real Spark, struck again and again in every phase; then every record is compared.

Each kill at a failpoint looks at the files to see that the phase is what it is said to be. All strikes hit one job,
one after the other, so that each recovery finds what the strikes before it left. `./dev campaign crash` strikes with
every action at every failpoint; here is a kill in each phase, with and without the JVM, and a sample of the rest: a
sixth of it each day.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.campaign.damage import DAMAGES
from tests.campaign.drivers import Target
from tests.campaign.footprint import RECORDS, Phase
from tests.campaign.places import QUERIES
from tests.campaign.report import summary
from tests.campaign.run import Entry, Options, Report, run_campaign
from tests.campaign.scenarios import SCENARIOS
from tests.campaign.schedule import At, Damage, Kill, Pause, Scenario, Step, kills_in
from tests.support.today import sampled
from tidegate.core.failpoints import Action
from tidegate.storages.schemes import Scheme

SEED = 7

OF = 6

KILLS: list[Step] = [
    At("compute.before", Action.CRASH),
    At("task.write", Action.CRASH),
    At("task.prepared", Action.CRASH),
    At("prepared.before", Action.CRASH, jvm_too=True),
    At("prepared.after", Action.CRASH, jvm_too=True),
    At("prepared.after", Action.CRASH),
    At("commits.seen.after", Action.CRASH),
    At("decision.before", Action.CRASH, jvm_too=True),
    At("commit.before", Action.CRASH),
    At("recover.position.after", Action.CRASH, jvm_too=True, in_recovery=True),
    At("commit.after", Action.CRASH, jvm_too=True),
    At("commit.before", Action.CRASH, in_recovery=True),
    At("finished.before", Action.CRASH, jvm_too=True),
]


def sample(seed: int) -> list[Step]:
    """Some of everything that is no kill at a failpoint."""
    chance = random.Random(seed)

    def query() -> str:
        return chance.choice(QUERIES)

    return [
        Kill(Target.JVM, query(), chance.choice(RECORDS)),
        Kill(Target.WORKER, query(), "spark/offsets"),
        Pause(Target.PYTHON, query(), chance.choice(RECORDS), beside=True),
        Pause(Target.JVM, query(), chance.choice(RECORDS), beside=False),
        Damage(query(), chance.choice(list(DAMAGES))),
        At(chance.choice(["redo.looked.after", "redo.written.after"]), Action.ACKLOST),
        At(chance.choice(["task.write", "task.prepare"]), Action.ERROR),
        At("prepared.after", Action.ACKLOST),
        Scenario(chance.choice(list(SCENARIOS))),
    ]


PARTS = sampled([pytest.param(part, id=f"part {part + 1} of {OF}") for part in range(OF)])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", PARTS)
def test_strikes_lose_and_repeat_nothing(tmp_path: Path, part: int, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [*KILLS[part::OF], *sample(SEED)[part::OF]]
    report, history = struck(tmp_path, steps, capsys)
    assert len(history) == len(steps)
    assert report.records > 0
    assert {each.phase for each in history if each.killed} - {"S"}, "recovery had something to do"


@pytest.mark.more
@pytest.mark.timeout(600)
def test_strikes_in_every_phase_lose_and_repeat_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [*KILLS, *sample(SEED)]
    report, history = struck(tmp_path, steps, capsys)
    assert len(history) == len(steps)
    assert {each.phase for each in history if each.killed} >= {phase.name for phase in Phase} - {"S"}
    assert (report.records > 0, report.aborted > 0, report.redone > 0) == (True, True, True)


@pytest.mark.more
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("storage", [Scheme.HDFS, Scheme.S3], ids=lambda scheme: scheme.value)
def test_strikes_on_another_storage_lose_and_repeat_nothing(tmp_path: Path, storage: Scheme) -> None:
    report = run_campaign(Options(folder=tmp_path, kills=12, seed=SEED, storage=storage), lambda _: None)
    assert flaws(report) == []
    assert (report.kills, report.found) == (12, dict.fromkeys(report.found, 0))


def struck(folder: Path, steps: list[Step], capsys: pytest.CaptureFixture[str]) -> tuple[Report, list[Entry]]:
    """A campaign of these steps, in which nothing was lost, repeated or wrong."""
    history: list[Entry] = []
    report = run_campaign(Options(folder=folder, kills=kills_in(steps), seed=SEED), history.append, steps)
    with capsys.disabled():
        print("\n" + "\n".join(f"phase {each.phase}: {each.step}, {each.target}" for each in history))
        print(summary(report))
    assert flaws(report) == []
    assert report.found == dict.fromkeys(report.found, 0)
    return report, history


def flaws(report: Report) -> list[str]:
    """Those of the job; a sample does not pass every failpoint."""
    return [flaw for flaw in report.flaws if not flaw.startswith("no process has passed")]
