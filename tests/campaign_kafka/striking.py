"""Carries out one step of the plan; says in which phase of an epoch it struck."""

from __future__ import annotations

import signal
import time

from tests.campaign.drivers import CampaignFailed, Driver
from tests.campaign.footprint import Phase
from tests.campaign_kafka.ground import Ground
from tests.campaign_kafka.scene import TRANSACTION_SECONDS
from tests.campaign_kafka.schedule import Kill, Pause, Step, Victim
from tidegate.core.errors import Code

_AWAY_SECONDS = 3.0
_LATE_SECONDS = TRANSACTION_SECONDS + 3.0


def carry_out(step: Step, ground: Ground) -> Phase:
    """Wait for the moment, strike, and start again what has ended."""
    match step:
        case Kill(victim=Victim.BROKER):
            return _kill_broker(step, ground)
        case Kill():
            return _kill(step, ground)
        case Pause(victim=Victim.BROKER):
            return _pause_broker(step, ground)
        case Pause():
            return _pause(step, ground)


def _kill(step: Kill, ground: Ground) -> Phase:
    ground.await_moment(step.moment, at_once=step.late)
    driver = ground.driver
    if step.victim is Victim.BOTH:
        driver.kill_all()
    else:
        driver.send(signal.SIGKILL, ground.chance.choice(_processes(driver, step.victim)))
    phase = ground.phase(step.moment)
    if step.victim is not Victim.WORKER:
        ground.wait_gone(driver)
        time.sleep(_LATE_SECONDS if step.late else 0)
        ground.start_next()
    return phase


def _pause(step: Pause, ground: Ground) -> Phase:
    ground.await_moment(step.moment)
    driver = ground.driver
    victim = ground.chance.choice(_processes(driver, step.victim))
    driver.send(signal.SIGSTOP, victim)
    phase = ground.phase(step.moment)
    try:
        end = time.monotonic() + step.seconds
        if step.beside:
            second = ground.spare()
            refused = ground.refused(second)
            if refused != Code.DRIVER_ALIVE.label:
                raise CampaignFailed(f"beside a driver that stands still: {refused}")
            ground.stable.give_back(second)
        time.sleep(max(0.0, end - time.monotonic()))
    finally:
        driver.send(signal.SIGCONT, victim)
    return phase


def _kill_broker(step: Kill, ground: Ground) -> Phase:
    number = _some_broker(ground)
    ground.await_moment(step.moment)
    ground.broker.kill(number)
    phase = ground.phase(step.moment)
    time.sleep(ground.chance.random() * _AWAY_SECONDS)
    with ground.timed("until a broker was back"):
        ground.broker.restart(number)
    return phase


def _pause_broker(step: Pause, ground: Ground) -> Phase:
    number = _some_broker(ground)
    ground.await_moment(step.moment)
    ground.broker.pause(number)
    try:
        phase = ground.phase(step.moment)
        time.sleep(step.seconds)
    finally:
        ground.broker.resume(number)
    return phase


def _processes(driver: Driver, victim: Victim) -> list[int]:
    """Those of which one is struck: of the workers also their daemon, and those that look for a source's offsets."""
    match victim:
        case Victim.PYTHON:
            return [driver.process]
        case Victim.JVM:
            return [driver.jvm]
        case _:
            return driver.workers()


def _some_broker(ground: Ground) -> int:
    return ground.chance.randint(1, len(ground.broker.servers.split(",")))
