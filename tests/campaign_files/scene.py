"""What the next start of the job is told: where its files are now, and what becomes of them. One file, read by it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.campaign.places import Places

SETTLE_SECONDS = 0.5
ROWS_PER_FILE = 8


@dataclass(frozen=True, slots=True)
class Scene:
    """`root`: the name of the input folder. `after_done`: keep, delete or archive. `planted`: a bug, by its name."""

    changed: str
    root: str = "input"
    after_done: str = "keep"
    lost: str = "refuse"
    planted: str | None = None

    def folder(self, places: Places) -> Path:
        return places.root / self.root

    def save(self, places: Places) -> None:
        draft = places.root / ".scene"
        draft.write_text(json.dumps(asdict(self)))
        draft.rename(places.root / "scene.json")

    @staticmethod
    def load(places: Places) -> Scene:
        return Scene(**json.loads((places.root / "scene.json").read_text()))


def archive(places: Places) -> Path:
    """Where files go that are done, when they are archived."""
    return places.root / "archive"
