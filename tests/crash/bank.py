"""The bank from outside: its orders, its checkpoints, and the money in them."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from tests.crash.bank_checker import Money
from tests.crash.bank_program import CHANNELS, FEE, paid_beside
from tests.house.repository import ROOT
from tests.support.driver import Driver
from tests.support.feeding import repeated
from tests.support.remote_files import visible
from tidegate import Restore
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.storages.schemes import Folder
from tidegate.testing.kafka.topics import PARTITIONS, create_topic

PROGRAM = Path(__file__).with_name("bank_program.py")
ACCOUNTS = 8
FILES_AT_ONCE = 200
Settings = Mapping[str, object]
_EPOCH = re.compile(r"-e(\d{12})-")


class Bank:
    """One bank, in an empty folder. `servers`: the brokers of its channels; empty for embedded channels."""

    def __init__(self, folder: Path, servers: str = "") -> None:
        self.checkpoints_folder = folder / "checkpoints"
        self.job = self.checkpoints_folder / "bank"
        self.folder = folder
        self.log = folder / "log"
        self._servers = servers
        self._over: Settings = {"servers": servers, "topics": f"bank-{uuid.uuid4().hex[:8]}"} if servers else {}
        for channel in CHANNELS if servers else ():
            create_topic(servers, f"{self._over['topics']}-{channel}", PARTITIONS)
        self._orders = 0
        self._counted = 0
        (folder / "in").mkdir()

    def driver(self, settings: Settings, until: str, back: Restore | None = None, failpoints: str = "") -> Driver:
        """Start it. `back`: what it restores first."""
        said = json.dumps({"checkpointing_interval": 0, "checkpointing_retained": 40, **self._over, **settings})
        restored = [] if back is None else [msgspec.json.encode(back).decode()]
        return Driver(PROGRAM, str(self.folder), said, until, *restored, log=self.log, failpoints=failpoints)

    def back_to(self, number: int) -> Restore:
        """Go back to a retained checkpoint, although payments that came later are visible."""
        return Restore(str(self.job / "checkpoints" / str(number)), rewind=f"to-{number}")

    def checkpoints(self) -> list[int]:
        return retained_numbers(Folder.of(self.job))

    def money(self, *numbers: int, job: Path | None = None) -> dict[int, Money]:
        """The money in these retained checkpoints, or in all of them, counted by another process. `job`: a copy of the
        job's folder that counts instead of it.
        """
        self._counted += 1
        program = [sys.executable, "-m", "tests.crash.bank_checker"]
        arguments = [str(job or self.job), str(self.folder / f"counted-{self._counted}"), self._servers]
        arguments += map(str, numbers)
        with self.log.open("ab") as log:
            done = subprocess.run(
                [*program, *arguments], stdout=subprocess.PIPE, stderr=log, check=True, timeout=300, cwd=ROOT
            )
        return {int(number): Money(**money) for number, money in json.loads(done.stdout).items()}

    def fed(self) -> AbstractContextManager[None]:
        """Orders come all the time; so many files at most. No two orders have the same amount."""
        return repeated(self.order, times=FILES_AT_ONCE, every_seconds=0.5)

    @property
    def ordered(self) -> range:
        """The amounts of all orders."""
        return range(2, 2 + self._orders)

    def order(self) -> None:
        """One more file of orders."""
        amounts = range(2 + self._orders, 2 + self._orders + 9 - self._orders % 5)
        hidden = self.folder / "orders"
        hidden.write_text("".join(f'{{"account": {each % ACCOUNTS}, "amount": {each}}}\n' for each in amounts))
        hidden.rename(self.folder / "in" / f"{self._orders}.json")
        self._orders += len(amounts)


def paid(checkpoints: Folder | Path, through: float = math.inf) -> Counter[int]:
    """How often each amount was paid, with the fee, in these epochs. `checkpoints`: the folder of the job's folder."""
    files = visible(Folder.of(paid_beside(str(checkpoints))))
    shown = (data for name, data in files.items() if (named := _EPOCH.search(name)) and int(named[1]) <= through)
    return Counter(json.loads(line)["amount"] + FEE for data in shown for line in data.splitlines())
