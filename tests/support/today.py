"""Which sample of many cases the tests run: another one each day, the same one for a seed that is given."""

from __future__ import annotations

import os
from datetime import datetime, timezone


def today() -> int:
    """`TIDEGATE_SEED`, or the number of the day."""
    return int(os.environ.get("TIDEGATE_SEED") or datetime.now(timezone.utc).toordinal())
