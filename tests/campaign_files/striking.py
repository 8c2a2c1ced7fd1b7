"""Carries out one step of the plan; says what has happened to files on the way."""

from __future__ import annotations

import signal
from dataclasses import replace

from tests.campaign.drivers import Target, pause, wait_until
from tests.campaign.schedule import At, Kill
from tests.campaign_files import own_points
from tests.campaign_files.acts import IN_PLACE, carry_out_act
from tests.campaign_files.ground import Ground
from tests.campaign_files.schedule import Inside, Step
from tidegate.core.failpoints import TASK_POINTS, Action

_MOMENT_SECONDS = 0.05
_FILES_AT_MOST = 4


def carry_out(step: Step, ground: Ground) -> list[str]:
    """Let everything go through, strike once, and start the job again; the acts that were done."""
    with ground.timed("until all was through"):
        ground.catch_up()
    _set_after_done(step, ground)
    with ground.timed("until struck"):
        done, is_down = _strike(step, ground)
    if is_down:
        with ground.timed("down"):
            done += [name for name in step.down if carry_out_act(name, ground, running=False)]
        ground.set_scene(replace(ground.scene, lost="refuse"))
        if step.again is not None:
            _die_again(step.again, ground)
        ground.start_next()
    return done


def _set_after_done(step: Step, ground: Ground) -> None:
    if ground.scene.after_done != step.after_done:
        ground.stop()
        ground.note()
        ground.set_scene(replace(ground.scene, after_done=step.after_done))
        ground.go()


def _strike(step: Step, ground: Ground) -> tuple[list[str], bool]:
    """The acts that were done, and whether the job is down behind it."""
    match step.strike:
        case At():
            return _at(step.strike, step, ground)
        case Kill():
            return _kill(step.strike, step, ground)
        case Inside():
            own_points.post(ground.places, step.strike.place)
            done = _alive(step, ground)
            place = step.strike.place
            ground.feed_until(lambda: own_points.is_taken(ground.places, place) or None, f"{place} passed")
            ground.wait_gone(ground.driver)
            return done, True


def _at(strike: At, step: Step, ground: Ground) -> tuple[list[str], bool]:
    epoch = min(query.newest("spark/offsets") for query in ground.queries()) + 1 + ground.chance.randrange(3)
    action = Action.PAUSE if strike.jvm_too else strike.action
    name = ground.post(f"{strike.place}@{epoch}={action.value}")
    done = _alive(step, ground)
    ground.wait_taken(name)
    if strike.place in TASK_POINTS:
        return done, False
    if strike.jvm_too:
        wait_until(ground.driver.is_stopped, "a driver that stands still", [ground.driver])
        ground.driver.kill_all()
    ground.wait_gone(ground.driver)
    return done, True


def _kill(strike: Kill, step: Step, ground: Ground) -> tuple[list[str], bool]:
    query = ground.query(strike.query)
    before = query.newest(strike.record)
    done = _alive(step, ground)
    ground.feed_until(lambda: query.newest(strike.record) > before or None, f"a new {strike.record}")
    pause(ground.chance, _MOMENT_SECONDS)
    driver = ground.driver
    driver.send(signal.SIGKILL, ground.chance.choice(driver.pids(strike.target)))
    if strike.target is Target.WORKER:
        return done, False
    ground.wait_gone(driver)
    return done, True


def _alive(step: Step, ground: Ground) -> list[str]:
    """Files come, and the acts of the step happen while they are read; those that are written in place come to a job
    that has nothing else to do, which looks at them at once."""
    first = [name for name in step.alive if name == IN_PLACE]
    done = [name for name in first if carry_out_act(name, ground, running=True)]
    ground.feed(1 + ground.chance.randrange(_FILES_AT_MOST))
    return done + [name for name in step.alive if name != IN_PLACE and carry_out_act(name, ground, running=True)]


def _die_again(place: str, ground: Ground) -> None:
    name = ground.post(f"{place}={Action.CRASH.value}")
    ground.start_next()
    ground.wait_taken(name)
    ground.wait_gone(ground.driver)
