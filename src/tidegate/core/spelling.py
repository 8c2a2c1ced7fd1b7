"""What was meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """A question with the known name that is spelt most alike, whatever its capitals; `otherwise` where none is."""
    by_letters = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_letters, n=1, cutoff=_ALIKE)
    return f"did you mean {by_letters[near[0]]}?" if near else otherwise


_ALIKE = 0.7
"""Of 0 to 1. Below it names that only share an ending (`...timeout.ms`) are taken for each other."""
