"""Where the campaign's topics and table are: written once, read by whoever drives the job."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tests.campaign.places import Places

PARTITIONS = 8
"""Of every topic: more than a machine of tests has cores."""

TRANSACTION_SECONDS = 20.0
"""Then the broker aborts what is still open: some strikes keep a driver away for longer."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The brokers and the names of the topics: the input, and what the two queries write."""

    servers: str
    input: str
    rows: str
    sums: str
    mirror: str

    def save(self, places: Places) -> None:
        """Keep it in the campaign's folder."""
        (places.root / "scene.json").write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(places: Places) -> Scene:
        return Scene(**json.loads((places.root / "scene.json").read_text()))
