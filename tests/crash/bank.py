"""The bank from outside: its orders, its checkpoints, and the money in them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tests.crash.bank_checker import Money
from tests.house.repository import ROOT
from tests.support.driver import Driver
from tests.support.feeding import repeated
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("bank_program.py")
ACCOUNTS = 8
FILES_AT_ONCE = 200
Settings = Mapping[str, object]


class Bank:
    """One bank, in an empty folder."""

    def __init__(self, folder: Path) -> None:
        self.job = folder / "checkpoints" / "bank"
        self.folder = folder
        self.log = folder / "log"
        self._orders = 0
        self._counted = 0
        (folder / "in").mkdir()

    def driver(self, settings: Settings, until: str, savepoint: int | None = None, failpoints: str = "") -> Driver:
        """Start it; with a retained checkpoint it goes back there first."""
        said = json.dumps({"checkpointing_interval": 0, "checkpointing_retained": 40, **settings})
        back = [] if savepoint is None else [str(self.job / "checkpoints" / str(savepoint))]
        return Driver(PROGRAM, str(self.folder), said, until, *back, log=self.log, failpoints=failpoints)

    def checkpoints(self) -> list[int]:
        return retained_numbers(Folder.of(self.job))

    def money(self, *numbers: int) -> dict[int, Money]:
        """The money in these retained checkpoints, or in all of them, counted by another process."""
        self._counted += 1
        program = [sys.executable, "-m", "tests.crash.bank_checker"]
        arguments = [str(self.job), str(self.folder / f"counted-{self._counted}"), *map(str, numbers)]
        with self.log.open("ab") as log:
            done = subprocess.run(
                [*program, *arguments], stdout=subprocess.PIPE, stderr=log, check=True, timeout=300, cwd=ROOT
            )
        return {int(number): Money(**money) for number, money in json.loads(done.stdout).items()}

    def fed(self) -> AbstractContextManager[None]:
        """Orders come all the time; so many files at most. No two orders have the same amount."""
        return repeated(self._order, times=FILES_AT_ONCE, every_seconds=0.5)

    @property
    def ordered(self) -> range:
        """The amounts of all orders."""
        return range(2, 2 + self._orders)

    def _order(self) -> None:
        amounts = range(2 + self._orders, 2 + self._orders + 9 - self._orders % 5)
        hidden = self.folder / "orders"
        hidden.write_text("".join(f'{{"account": {each % ACCOUNTS}, "amount": {each}}}\n' for each in amounts))
        hidden.rename(self.folder / "in" / f"{self._orders}.json")
        self._orders += len(amounts)
