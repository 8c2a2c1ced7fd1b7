"""Where a campaign keeps what, below its folder; the same for the one who strikes and for the drivers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tidegate.storages.schemes import Folder

JOB = "campaign"
ROWS, SUMS = "rows", "sums"
QUERIES = (ROWS, SUMS)
"""The uids of the queries: without state, and with state."""

DELIVERY = "CAMPAIGN_DELIVERY"
"""The environment variable with the delivery level of the whole job; exactly-once without it."""

CHECKPOINTS = "CAMPAIGN_CHECKPOINTS"
"""The environment variable with the URI of the checkpoints; without it they are in the campaign's folder."""

MASTER = "CAMPAIGN_MASTER"
"""The environment variable with the URL of a cluster; input and output are then beside the checkpoints."""

STORE = "CAMPAIGN_STORE"
"""The environment variable with the name of the store that takes the place of SQLite and the tray, see `stores`."""

LEASE_SECONDS = 6
"""The lease of a driver whose checkpoints are not on the local disk."""

PROGRAM = "CAMPAIGN_PROGRAM"
"""The environment variable with the module that has `open_session` and `build_job`."""


@dataclass(frozen=True, slots=True)
class Places:
    """Paths of a campaign."""

    root: Path

    @property
    def input(self) -> Path:
        """JSON files `{"number": 17, "word": "w3", "value": 5}`, a word at most once in each. A row whose word is null
        is not for `sums`. One file is one epoch.
        """
        return self.root / "input"

    @property
    def checkpoints(self) -> Path:
        """Where they are on the local disk."""
        return self.root / "checkpoints"

    @property
    def database(self) -> Path:
        """SQLite: the tables `rows(number, word, value, lucky)` and `sums(word, seen, total, chain, last, lucky)`."""
        return self.root / "output" / "out.db"

    @property
    def on_cluster(self) -> bool:
        """Whether executors on other machines could do the work: nothing of it is on a local disk then."""
        return MASTER in os.environ

    @property
    def store(self) -> str | None:
        """The name of the store whose sinks are struck, if there is one."""
        return os.environ.get(STORE)

    @property
    def input_folder(self) -> Folder:
        """`input`, wherever it is."""
        return self._shared / "input"

    def files(self, query: str) -> Folder:
        """The same rows again: of `rows` in Parquet, of `sums` in JSON lines."""
        return self._shared / "output" / query

    def more_files(self, query: str) -> Folder:
        """And again, in a second sink of files, on a cluster."""
        return self._shared / "output" / f"{query}-more"

    @property
    def _shared(self) -> Folder:
        return self.job.parent.parent if self.on_cluster else Folder.of(str(self.root))

    def tray(self, query: str) -> Path:
        """The same rows once more, in a sink whose rows the ledger's journal keeps."""
        return self.root / "output" / f"{query}-tray"

    @property
    def strikes(self) -> Path:
        return self.root / "strikes"

    @property
    def commands(self) -> Path:
        """The socket on which drivers hear what to do."""
        return self.root / "commands"

    @property
    def temporary(self) -> Path:
        """What killed processes leave behind; it goes with the campaign's folder."""
        return self.root / "temporary"

    def log(self, driver: int) -> Path:
        return self.root / "logs" / f"driver-{driver}.log"

    @property
    def job(self) -> Folder:
        """The job's folder, wherever the checkpoints are."""
        return Folder.of(os.environ.get(CHECKPOINTS) or str(self.checkpoints)) / JOB
