"""Starts the shop's job, kills it where the plan says, starts it again, and compares every store at the end."""

from __future__ import annotations

import os
import runpy
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.shop.expected import Compared, compared, expected
from tests.shop.program import EXAMPLE
from tests.shop.servers import Servers, serving
from tests.shop.stores import files_by_epoch, left_over, read
from tests.support.driver import Driver
from tests.support.variables import variables
from tidegate.testing.demo.schedule import Kill, plan_kills

PROGRAM = Path(__file__).with_name("program.py")
_SETTINGS = {"TIDEGATE_CHECKPOINTING_INTERVAL": "0", "TIDEGATE_CHECKPOINTING_RETAINED": "1000"}
"""All checkpoints are kept: the alerts are computed from the ends of the epochs."""
_LAST_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`folder`: must exist and be empty. `files`: of orders, one an epoch."""

    folder: Path
    crashes: int
    seed: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopReport:
    stores: list[Compared]
    left: list[str]
    """Staging tables that are still there."""
    kills: list[str]
    epochs: dict[str, int]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.left and all(each.exact for each in self.stores)


def run_shop(options: Options, tell: Callable[[str], None]) -> ShopReport:
    """Raises AssertionError if a driver ends by itself, or does not reach the place of its kill."""
    begun = time.monotonic()
    shop = runpy.run_path(str(EXAMPLE))
    tell("starting PostgreSQL, Redis and Kafka")
    with serving(options.folder) as servers, variables(_SETTINGS):
        files = _fed(options, shop)
        kills = plan_kills(options.seed, options.crashes, options.files)
        tell(f"{sum(map(len, files))} orders in {options.files} files, {len(kills)} kills, seed {options.seed}")
        for number, kill in enumerate(kills, start=1):
            _run_until_killed(options.folder, number, kill)
            where = f"epoch {kill.epoch}, phase {kill.phase.name} ({kill.phase.value}), at {kill.point}"
            tell(f"kill -9 number {number} in {where}")
        _run_to_the_end(options.folder)
        return _report(options.folder, servers, files, shop["ALERT_ABOVE"], kills, begun)


def _fed(options: Options, shop: dict[str, Any]) -> list[list[str]]:
    """Put all files of orders; their lines. Spark reads them in the order of their times, of which no two are equal."""
    began = time.time_ns() - options.files * 1_000_000_000
    for number in range(options.files):
        shop["put"](options.folder, number)
        arrived = began + number * 1_000_000_000
        os.utime(options.folder / "orders" / f"{number:06}.txt", ns=(arrived, arrived))
    return [[*shop["lines_of"](number)] for number in range(options.files)]


def _run_until_killed(folder: Path, number: int, kill: Kill) -> None:
    held = folder / f"held-{number}"
    log = folder / f"driver-{number}.log"
    strike = f"{kill.point}@{kill.epoch}=hold:{held}"
    with Driver(PROGRAM, str(folder), log=log, failpoints=strike) as driver:
        driver.wait_for_hold(held)
        if kill.jvm_too:
            driver.kill_all()
        else:
            driver.kill()


def _run_to_the_end(folder: Path) -> None:
    with Driver(PROGRAM, str(folder), log=folder / "driver-last.log") as driver:
        assert driver.wait(_LAST_SECONDS) == 0, driver.tail()


def _report(
    folder: Path, servers: Servers, files: list[list[str]], alert_above: int, kills: list[Kill], begun: float
) -> ShopReport:
    ends = {query: files_by_epoch(folder, query) for query in ("orders", "totals")}
    for query, read_to in ends.items():
        assert read_to[-1] == len(files), f"{query} has read {read_to[-1]} of {len(files)} files"
    return ShopReport(
        stores=compared(expected(files, ends["totals"], alert_above), read(folder, servers)),
        left=left_over(servers),
        kills=[f"{kill.phase.name} {kill.point}@{kill.epoch}" for kill in kills],
        epochs={query: len(read_to) for query, read_to in ends.items()},
        seconds=time.monotonic() - begun,
    )
