"""The paths of the demo below its folder, for the process that runs the demo and for the driver."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

COUNTS = "counts"
LINES = "lines"
QUERIES = (COUNTS, LINES)
"""The uids of the job's queries."""


class Gate(str, Enum):
    """Whether tidegate or plain PySpark writes into the sinks."""

    on = "on"
    off = "off"


class Topic(Enum):
    """The topics of the demo with Kafka. Their values are JSON, as in the files."""

    INPUT = "input"
    LINES = "lines"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class Places:
    """Paths of the demo."""

    root: Path

    @property
    def input(self) -> Path:
        """JSON files with one line of text per row: `{"number": 17, "text": "..."}`. One file is one batch."""
        return self.root / "input"

    @property
    def table(self) -> Path:
        """The SQLite database with the table `counts(word, count)`."""
        return self.root / "output" / "counts.db"

    @property
    def changes(self) -> Path:
        """JSON rows `{"word": ..., "count": ...}`."""
        return self.root / "output" / "changes"

    @property
    def lines(self) -> Path:
        """JSON rows as in the input."""
        return self.root / "output" / "lines"

    @property
    def numbered(self) -> Path:
        """The SQLite database with the table `lines(number, text)`. Only the demo with a poisoned record writes it."""
        return self.root / "output" / "lines.db"

    @property
    def dead_letters(self) -> Path:
        """JSON rows with the records that the table refuses."""
        return self.root / "output" / "dead-letters"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def broker(self) -> Path:
        """The folder of the broker of the demo with Kafka."""
        return self.root / "broker"

    def log(self, run: int) -> Path:
        """The output of the driver with number `run`."""
        return self.root / f"driver-{run}.log"

    def figures(self, run: int) -> Path:
        """The figures that the driver with number `run` wrote last."""
        return self.root / f"figures-{run}.json"

    def held(self, run: int, query: int) -> Path:
        """A file that the driver with number `run` writes when its first (1) or second (2) query waits to be killed."""
        return self.root / f"held-{run}-{query}"
