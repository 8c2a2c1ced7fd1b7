"""What stands against a small JSON file that a crash, another program or a person may have spoilt."""

from __future__ import annotations

import msgspec

SPOILT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the value asked for: no JSON, another shape, no UTF-8, nested too deep."""
