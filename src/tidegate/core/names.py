"""The rules for names: of jobs, sources, queries and sinks, and of requests that callers name."""

from __future__ import annotations

import re

NAME_RULE = "1 to 64 letters, digits, `-` or `_`, the first a letter or digit"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SHOWN_AT_MOST = 80


def is_name(text: str) -> bool:
    """True if `text` is a valid name. It is then also a plain name of a file or folder."""
    return _NAME.fullmatch(text) is not None


def shown(text: str) -> str:
    """`text` for an error: quoted, and shortened if it is long."""
    cut = text if len(text) <= _SHOWN_AT_MOST else f"{text[:_SHOWN_AT_MOST]}..."
    return repr(cut) if cut == text else f"{cut!r} ({len(text)} characters)"
