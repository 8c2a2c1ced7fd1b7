"""`examples/listener.py` does what its head says."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from tests.integration.place import Place

EXAMPLE = Path(__file__).parents[2] / "examples" / "listener.py"


def test_the_file_of_the_listener_has_the_figures_of_its_head(place: Place) -> None:
    (place.folder / "text").mkdir()
    (place.folder / "text" / "1.txt").write_text("to be or not to be\n")
    declare = runpy.run_path(str(EXAMPLE))["declare"]
    declare(place.folder, place.spark).run(until="caught-up")
    figures = json.loads((place.folder / "metrics.json").read_text())
    assert figures == {"counts": {"epochs": 1, "rows": 4, "failed": 0, "dead_letters": 0}}
    assert json.dumps(figures) in EXAMPLE.read_text()
