"""A bank of four queries is killed while it takes checkpoints: no money appears or vanishes in any of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.crash.bank import Bank, Settings
from tests.crash.bank_checker import Money
from tests.integration.place import wait_until
from tests.support.today import sampled
from tidegate.testing.kafka import Broker

KILLS = 1
CHECKPOINTS_A_LIFE = 2
MODES = [
    pytest.param({}, id="aligned"),
    pytest.param({"checkpointing_unaligned": True}, id="unaligned"),
    pytest.param({"checkpointing_unaligned": True, "checkpointing_aligned_timeout": 0.2}, id="aligned-at-first"),
    pytest.param({"checkpointing_mode": "at-least-once"}, id="at-least-once"),
]


@pytest.mark.parametrize("settings", sampled(MODES, every=3))
@pytest.mark.timeout(400)
def test_in_every_checkpoint_there_is_as_much_money_as_was_opened(tmp_path: Path, settings: Settings) -> None:
    """At-least-once there is more, and as much too much after a restore."""
    demand_the_money(Bank(tmp_path), settings)


@pytest.mark.more
@pytest.mark.parametrize("settings", MODES)
@pytest.mark.timeout(400)
def test_there_is_as_much_money_with_channels_over_kafka(tmp_path: Path, settings: Settings, broker: Broker) -> None:
    demand_the_money(Bank(tmp_path, broker.servers), settings)


def demand_the_money(bank: Bank, settings: Settings) -> None:
    repeats = "checkpointing_mode" in settings
    found = counted(bank, settings)
    assert all(money.excess >= 0 if repeats else money.excess == 0 for money in found.values())
    assert any(money.flying for money in found.values()) == ("checkpointing_unaligned" in settings)
    assert any(money.excess for money in found.values()) == repeats
    number = max(found, key=lambda each: (found[each].flying, found[each].excess))
    at_the_end = restored(bank, settings, number)
    assert (at_the_end.flying, at_the_end.excess) == (0, found[number].excess)


def counted(bank: Bank, settings: Settings) -> dict[int, Money]:
    """The money in each checkpoint of a job that was killed."""
    for life in range(KILLS + 1):
        with bank.driver(settings, "forever") as driver:
            for _ in range(CHECKPOINTS_A_LIFE):
                before = bank.checkpoints()
                with bank.fed():
                    wait_until(lambda before=before: bank.checkpoints() != before, "a checkpoint")
            if life < KILLS:
                os.kill(driver.process.pid, signal.SIGKILL)
    return bank.money()


def restored(bank: Bank, settings: Settings, number: int) -> Money:
    """The money at the end, after the job went back to a checkpoint and has read everything."""
    with bank.driver(settings, "caught-up", bank.back_to(number)) as driver:
        assert driver.wait() == 0, driver.tail()
    [found] = bank.money(bank.checkpoints()[-1]).values()
    return found
