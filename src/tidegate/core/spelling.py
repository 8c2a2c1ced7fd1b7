"""Suggests an existing name for one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A question with the most similar known name, ignoring case; `otherwise` if there is none."""
    by_letters = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_letters, n=1, cutoff=_ALIKE)
    return f"did you mean {by_letters[near[0]]}?" if near else otherwise


_ALIKE = 0.7
"""From 0 to 1. Below it, names that only share an ending (`...timeout.ms`) would match."""
