"""What tidegate logged in a test: clients that a test has left behind log beside it."""

from __future__ import annotations

import pytest


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of tidegate's logger, in their order."""
    return [record.getMessage() for record in caplog.records if record.name == "tidegate"]
