"""Errors of a small JSON file that a crash, another program or a person may have damaged."""

from __future__ import annotations

import msgspec

SPOILT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of msgspec for unexpected bytes: no JSON, another structure, no UTF-8, nested too deep."""
