"""A bank of four queries is killed while it takes checkpoints: no money appears or vanishes in any of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from tests.crash.bank_checker import Money
from tests.house.repository import ROOT
from tests.integration.place import wait_until
from tests.support.driver import Driver
from tests.support.today import sampled
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("bank_program.py")
KILLS = 2
FILES = 200
CHECKPOINTS_A_LIFE = 2
MODES = [
    pytest.param({}, id="aligned"),
    pytest.param({"checkpointing_unaligned": True}, id="unaligned"),
    pytest.param({"checkpointing_unaligned": True, "checkpointing_aligned_timeout": 0.2}, id="aligned-at-first"),
    pytest.param({"checkpointing_mode": "at-least-once"}, id="at-least-once"),
]


@pytest.mark.parametrize("settings", sampled(MODES))
@pytest.mark.timeout(400)
def test_in_every_checkpoint_there_is_as_much_money_as_was_opened(tmp_path: Path, settings: dict[str, object]) -> None:
    """At-least-once there is more, and as much too much after a restore."""
    repeats = "checkpointing_mode" in settings
    found = counted(tmp_path, settings)
    assert all(money.excess >= 0 if repeats else money.excess == 0 for money in found.values())
    assert any(money.flying for money in found.values()) == ("checkpointing_unaligned" in settings)
    assert any(money.excess for money in found.values()) == repeats
    number = max(found, key=lambda each: (found[each].flying, found[each].excess))
    assert restored(tmp_path, settings, number).excess == found[number].excess


def counted(folder: Path, settings: dict[str, object]) -> dict[int, Money]:
    """The money in each checkpoint of a job that was killed twice."""
    (folder / "in").mkdir()
    job = Folder.of(folder / "checkpoints" / "bank")
    for life in range(KILLS + 1):
        with Driver(PROGRAM, str(folder), said(settings), "forever", log=folder / "log") as driver:
            for _ in range(CHECKPOINTS_A_LIFE):
                before = max(retained_numbers(job), default=0)
                with fed(folder):
                    wait_until(partial(has_newer, job, before), "a checkpoint")
            if life < KILLS:
                os.kill(driver.process.pid, signal.SIGKILL)
    return checked(folder, "killed")


def restored(folder: Path, settings: dict[str, object], number: int) -> Money:
    """The money at the end, after the job went back to a checkpoint and has read everything."""
    back = folder / "checkpoints" / "bank" / "checkpoints" / str(number)
    with Driver(PROGRAM, str(folder), said(settings), "caught-up", str(back), log=folder / "log") as driver:
        assert driver.wait() == 0, driver.tail()
    _, found = max(checked(folder, "restored").items())
    assert found.flying == 0
    return found


def checked(folder: Path, name: str) -> dict[int, Money]:
    """The money in each retained checkpoint, counted by another process."""
    program = [sys.executable, "-m", "tests.crash.bank_checker"]
    arguments = [str(folder / "checkpoints" / "bank"), str(folder / name)]
    done = subprocess.run([*program, *arguments], stdout=subprocess.PIPE, check=True, timeout=120, cwd=ROOT)
    return {int(number): Money(**money) for number, money in json.loads(done.stdout).items()}


@contextmanager
def fed(folder: Path) -> Iterator[None]:
    """Orders come all the time; so many files at most."""
    stopped = Event()

    def feed() -> None:
        begun = len(list((folder / "in").iterdir()))
        for number in range(begun, begun + FILES):
            orders = [{"account": each % 8, "amount": 2 + (number * each) % 7} for each in range(number % 5, 9)]
            hidden = folder / "orders"
            hidden.write_text("".join(json.dumps(order) + "\n" for order in orders))
            hidden.rename(folder / "in" / f"{number}.json")
            if stopped.wait(0.3):
                return

    with ThreadPoolExecutor() as pool:
        feeding = pool.submit(feed)
        try:
            yield
        finally:
            stopped.set()
        feeding.result()


def has_newer(job: Folder, number: int) -> bool:
    return max(retained_numbers(job), default=0) > number


def said(settings: dict[str, object]) -> str:
    return json.dumps({"checkpointing_interval": 0, "checkpointing_retained": 40, **settings})
