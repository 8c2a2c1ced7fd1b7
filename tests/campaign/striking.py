"""Carries out one step of the plan; says in which phase of which epoch it struck."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.damage import DAMAGES, leave_over
from tests.campaign.drivers import CampaignFailed, Driver, Target, pause, wait_until
from tests.campaign.field import Field
from tests.campaign.footprint import Phase
from tests.campaign.places import QUERIES
from tests.campaign.scenarios import SCENARIOS
from tests.campaign.schedule import At, Damage, Kill, Pause, Scenario, Stall, Step, StoreStrike
from tests.campaign.situations import Situation, phase_of, situation_of
from tidegate.core.errors import Code
from tidegate.core.failpoints import TASK_POINTS, Action

_MOMENT_SECONDS = 0.05
_STILL_SECONDS = 0.4
_WAYS_TO_FAIL = ["compute.before=error", "prepared.after=acklost", "decision.after=acklost", "commit.after=acklost"]
_SUPERSEDED = {Code.LEASE_LOST.label, Code.RUN_SUPERSEDED.label}
"""With these a driver ends whose job another one runs."""
_BEHIND_A_STALL = 2
_KEPT, _MANY = 14, 60
"""Epochs before and after which every record of an older one has gone: some are kept, and the others go twenty epochs
together.
"""


@dataclass(frozen=True, slots=True)
class Struck:
    """What a step has done: where it struck, which process, and whether that was killed."""

    phase: Phase
    target: str
    killed: bool


def carry_out(step: Step, field: Field) -> Struck:
    """Let everything that is there go through, then strike once; the job goes on by itself when this returns.

    A run that died between the source's log and its offsets entry leaves it to the next one to cut that epoch. So that
    one file stays one epoch, the next file comes only then.
    """
    with field.timed("until all was through"):
        field.catch_up()
    match step:
        case At():
            return _strike_at(step, field)
        case Kill():
            return _kill(step, field)
        case Pause():
            return _pause(step, field)
        case Stall():
            return _stall(step, field)
        case StoreStrike():
            return _strike_the_store(step, field)
        case Damage():
            with field.between_runs():
                DAMAGES[step.name](field.query(step.query))
            return Struck(Phase.R, "Spark's log", killed=False)
        case Scenario():
            SCENARIOS[step.name](field)
            return Struck(Phase.S, "folders", killed=False)


# --- at a failpoint ----------------------------------------------------------------------------------------


def _strike_at(step: At, field: Field) -> Struck:
    field.driver.listen()
    since = len(field.driver.said)
    action = Action.PAUSE if step.jvm_too else step.action
    situation = situation_of(step.place)
    if situation is Situation.TAKEOVER:
        return _strike_at_takeover(step, action, field)
    with field.timed("until struck"):
        bring_about = _while_it_is_recovered if step.in_recovery else _BRING_ABOUT[situation]
        name = bring_about(field, step.place, action)
        taken = field.wait_taken(name)
    phase = Phase.R if step.in_recovery else phase_of(step.place)
    if step.place in TASK_POINTS:
        return Struck(phase, Target.WORKER.value, killed=step.action is Action.CRASH)
    if step.action is not Action.CRASH:
        field.wait(lambda: field.driver.has_said("failed", since), "the job to fail and to start again")
        return Struck(phase, "error", killed=False)
    _die(step, field.driver, field, name)
    _check_phase(step.place, taken.epoch, field)
    field.start_next()
    return Struck(phase, "driver and JVM" if step.jvm_too else "driver", killed=True)


def _die(step: At, driver: Driver, field: Field, name: str) -> None:
    """It has killed itself; or it stands still, and everything of it is killed at one moment."""
    if step.jvm_too:
        wait_until(driver.is_stopped, "a driver that stands still", [driver])
        driver.kill_all()
    field.wait_gone(driver)


def _check_phase(place: str, epoch: int | None, field: Field) -> None:
    """The files must show the phase in which the place lies, in one of the queries."""
    phase = phase_of(place)
    if phase in (Phase.R, Phase.S) or epoch is None or situation_of(place) is not Situation.EPOCH:
        return
    seen = {found for query in field.queries() for found in query.phases(epoch)}
    if phase not in seen:
        raise CampaignFailed(f"killed at {place} in epoch {epoch}, but the files show {sorted(p.name for p in seen)}")


def _in_an_epoch(field: Field, place: str, action: Action) -> str:
    name = field.post(f"{place}@{field.newest + 1}={action.value}")
    field.feed()
    return name


def _at_a_restart(field: Field, place: str, action: Action, first: str | None = None) -> str:
    """The job fails first, somewhere in an epoch, and the strike waits for its recovery."""
    field.wait_running()
    point, _, how = (first or field.chance.choice(_WAYS_TO_FAIL)).partition("=")
    failing = field.post(f"{point}@{field.newest + 1}={how}")
    name = field.post(f"{place}={action.value}")
    field.feed()
    field.wait_taken(failing)
    return name


def _after_an_undecided_epoch(field: Field, place: str, action: Action) -> str:
    return _at_a_restart(field, place, action, "prepared.after=acklost")


def _while_it_is_recovered(field: Field, place: str, action: Action) -> str:
    """Spark has committed an epoch that nobody has decided: recovery decides and finishes it."""
    with field.between_runs("decision.before"):
        return field.post(f"{place}={action.value}")


def _after_a_damage(field: Field, place: str, action: Action) -> str:
    with field.between_runs():
        DAMAGES["the newest commits entry is deleted"](field.chance.choice(field.queries()))
        return field.post(f"{place}={action.value}")


def _after_a_left_over(field: Field, place: str, action: Action) -> str:
    with field.between_runs():
        leave_over(field.chance.choice(field.queries()))
        return field.post(f"{place}={action.value}")


def _when_it_comes_back(field: Field, place: str, action: Action) -> str:
    """An undecided entry is torn when recovery looks, and whole when it is put aside."""
    with field.between_runs():
        entry = _undecided_entry(field)
        whole = entry.read_bytes()
        entry.write_bytes(whole[:3])
        putting_aside = field.post("heal.aside.before=pause")
    field.wait_stopped(putting_aside)
    entry.write_bytes(whole)
    name = field.post(f"{place}={action.value}")
    field.driver.send(signal.SIGCONT, field.driver.process)
    return name


def _undecided_entry(field: Field) -> Path:
    for query in field.queries():
        newest = query.newest("spark/offsets")
        if newest > query.newest("ledger/decided"):
            return query.folder / "spark" / "offsets" / str(newest)
    raise CampaignFailed("no query has an undecided entry")


def _when_the_sink_loses(field: Field, place: str, action: Action) -> str:
    field.wait_running()
    name = field.post(f"{place}={action.value}")
    (field.places.tray(field.chance.choice(QUERIES)) / "lose").touch()
    field.feed()
    return name


_BRING_ABOUT: Mapping[Situation, Callable[[Field, str, Action], str]] = {
    Situation.EPOCH: _in_an_epoch,
    Situation.LATE: _in_an_epoch,
    Situation.RESTART: _at_a_restart,
    Situation.UNDECIDED: _after_an_undecided_epoch,
    Situation.DAMAGED: _after_a_damage,
    Situation.LEFT_OVER: _after_a_left_over,
    Situation.COMES_BACK: _when_it_comes_back,
    Situation.LOSES: _when_the_sink_loses,
}


def _strike_at_takeover(step: At, action: Action, field: Field) -> Struck:
    """The driver stands still before it decides; its locks are taken away by force; another one finishes the epoch and
    goes on until all records of it are gone; then the first one wakes up, decides, sees it, and is struck."""
    field.wait_running()
    stalled = field.driver
    epoch = field.newest + 1
    still = field.post(f"decision.before@{epoch}=pause")
    field.feed()
    field.wait_stopped(still)
    behind = [query for query in field.queries() if epoch > query.newest("ledger/decided")]
    for lock in ("driver.lock", "jvm.lock"):
        (field.places.checkpoints / "campaign" / "locks" / lock).unlink()
    name = field.post(f"{step.place}={action.value}")
    field.start_next()

    def is_gone() -> bool:
        return not any(query.shows("ledger/decided", epoch) for query in behind)

    for number in range(_MANY):
        if number < _KEPT or not is_gone():
            field.feed_slowly(1)
    field.wait(is_gone, "the old decision gone")
    since = len(stalled.said)
    stalled.send(signal.SIGCONT, stalled.process)
    wait_until(lambda: field.strikes.taken_by(name), "the late decision withdrawn", [stalled])
    if step.action is Action.CRASH:
        _die(step, stalled, field, name)
        killed = "driver and JVM" if step.jvm_too else "driver"
    else:
        wait_until(lambda: stalled.has_said("refused", since), "the stalled driver to be refused", [stalled])
        killed = "error"
    stalled.kill_all()
    return Struck(phase_of(step.place), killed, killed=step.action is Action.CRASH)


# --- at any moment -----------------------------------------------------------------------------------------


def _kill(step: Kill, field: Field) -> Struck:
    phase = _go_to(step, field)
    driver = field.driver
    victim = field.chance.choice(driver.pids(step.target))
    driver.send(signal.SIGKILL, victim)
    if step.target in (Target.PYTHON, Target.JVM):
        field.wait_gone(driver)
        field.start_next()
    return Struck(phase(), step.target.value, killed=True)


def _pause(step: Pause, field: Field) -> Struck:
    phase = _go_to(step, field)
    driver = field.driver
    victim = field.chance.choice(driver.pids(step.target))
    driver.send(signal.SIGSTOP, victim)
    found = phase()
    try:
        if step.beside:
            second = field.stable.take()
            refused = field.refused(second)
            if refused != "TG-DRIVER-ALIVE":
                raise CampaignFailed(f"beside a driver that stands still: {refused}")
            field.stable.give_back(second)
        pause(field.chance, _STILL_SECONDS)
    finally:
        driver.send(signal.SIGCONT, victim)
    return Struck(found, f"{step.target.value} stopped", killed=False)


def _strike_the_store(step: StoreStrike, field: Field) -> Struck:
    phase = _go_to(step, field)
    found = phase()
    if field.store is None:
        raise CampaignFailed("no store to strike")
    field.store.strike()
    return Struck(found, field.store.title, killed=False)


def _stall(step: Stall, field: Field) -> Struck:
    """The first driver must end by itself when it wakes up. What it did meanwhile or later is seen in the records."""
    field.wait_running()
    stalled = field.driver
    since = len(stalled.said)
    name = field.post(f"{step.place}@{field.newest + 1}=pause")
    field.feed()
    field.wait_stopped(name)
    if step.jvm_too:
        stalled.send(signal.SIGSTOP, stalled.jvm)
    with field.timed("until a stalled driver was replaced"):
        field.start_next()
        field.feed_slowly(_BEHIND_A_STALL)
    stalled.send(signal.SIGCONT, stalled.jvm, stalled.process)
    ended = ("refused", "failed")
    wait_until(lambda: any(stalled.has_said(each, since) for each in ended), "the end of a stalled driver", [stalled])
    answer = next(each for each in stalled.said[since:] if each["event"] in ended)
    if answer["code"] not in _SUPERSEDED:
        raise CampaignFailed(f"a stalled driver that was replaced: {answer}\n{stalled.last_words()}")
    pause(field.chance, _STILL_SECONDS)
    stalled.kill_all()
    return Struck(phase_of(step.place), "driver stalled", killed=False)


def _go_to(step: Kill | Pause | StoreStrike, field: Field) -> Callable[[], Phase]:
    """Feed an epoch and wait until its record is there, and a moment more; how to see the phase that it is in."""
    epoch = field.feed()
    query = field.query(step.query)
    with field.timed("until struck"):
        field.wait(lambda: query.shows(step.record, epoch), f"{step.record} of epoch {epoch} of {step.query}")
    pause(field.chance, _MOMENT_SECONDS)
    return lambda: min(query.phases(epoch), key=lambda phase: phase.name)
