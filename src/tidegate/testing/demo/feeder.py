"""Input that keeps arriving: one file per batch, each put into the input folder by a rename."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from tidegate.testing.checker import Line

_PAUSE_SECONDS = 0.02


class Feeder:
    """Puts the batches into `folder` one after the other, as the demo lets them in."""

    def __init__(self, folder: Path, batches: Sequence[Sequence[Line]]) -> None:
        self.fed = 0
        self._folder = folder
        self._batches = batches
        self._next_at = 0.0
        self._began_ns = time.time_ns()
        folder.mkdir()

    def feed(self, up_to: int) -> None:
        """Put the next batch there, unless `up_to` batches are there already or the last one has only just come."""
        if self.fed >= min(up_to, len(self._batches)) or time.monotonic() < self._next_at:
            return
        self._put(self.fed, self._batches[self.fed])
        self.fed += 1
        self._next_at = time.monotonic() + _PAUSE_SECONDS

    def _put(self, number: int, batch: Sequence[Line]) -> None:
        hidden = self._folder / f".{number:05}.json"
        rows = [json.dumps({"number": line.number, "text": line.text}) for line in batch]
        hidden.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        # Spark reads files in the order of their times, which it knows in milliseconds: no two may be equal.
        arrived = self._began_ns + number * 1_000_000
        os.utime(hidden, ns=(arrived, arrived))
        hidden.rename(self._folder / f"{number:05}.json")
