"""What tidegate logged in a test: clients that a test has left behind log beside it."""

from __future__ import annotations

from typing import Any

import pytest


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of tidegate's logger, in their order."""
    return [record.getMessage() for record in caplog.records if record.name == "tidegate"]


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str | None, dict[str, Any]]]:
    """(name of the event, its fields) of each message of tidegate's logger."""
    mine = [record.__dict__ for record in caplog.records if record.name == "tidegate"]
    return [(record["event"], record["fields"]) for record in mine]
