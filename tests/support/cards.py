"""The jobs on a page that a program or a command has opened."""

from __future__ import annotations

import json
import urllib.request


def states_on_the_page(said: str) -> dict[str, str]:
    """The state of each job. `said`: text with the line that names the page. Nothing while there is no such page."""
    url = next((line.split()[1] for line in said.splitlines() if line.startswith("page: ")), "")
    try:
        with urllib.request.urlopen(f"{url}jobs/cards", timeout=20) as answer:
            return {card["name"]: card["state"] for card in json.load(answer)["jobs"]}
    except (OSError, ValueError):
        return {}
