"""The demo's input: lines of text, generated or the user's own, cut into batches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.testing.checker import InputLine

VOCABULARY = 2000
_SYLLABLES = tuple(a + b for a in ("b", "d", "k", "l", "m", "n", "r", "s", "t", "w") for b in ("a", "e", "i", "o", "u"))


def generated(lines: int, seed: int) -> list[str]:
    """Lines of 3 to 12 words; the word of rank n comes 1/n times as often as the first (Zipf's law)."""
    chance = random.Random(seed)
    words = _vocabulary(chance)
    weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    return [" ".join(chance.choices(words, cum_weights=weights, k=chance.randint(3, 12))) for _ in range(lines)]


def read_folder(folder: Path) -> list[str]:
    """The lines of all files in `folder`, files in the order of their names."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    texts = [line.rstrip("\n") for file in files for line in _lines_of(file)]
    if not texts:
        raise TidegateError(
            Code.SOURCE_UNKNOWN,
            expected="text files",
            found="no line of text",
            where=f"--input {folder}",
            next_step="name a folder with text files, or leave --input out",
        )
    return texts


def cut(texts: Sequence[str], batches: int) -> list[list[InputLine]]:
    """Number the lines from 1, and cut them into `batches` parts of nearly equal size."""
    lines = [InputLine(number, text) for number, text in enumerate(texts, start=1)]
    edges = [len(lines) * part // batches for part in range(batches + 1)]
    return [lines[start:end] for start, end in pairwise(edges)]


def _lines_of(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", errors="replace") as opened:
        yield from opened


def _vocabulary(chance: random.Random) -> list[str]:
    """Different words of one to four syllables. Frequent words are short."""
    words: dict[str, None] = {}
    tries = 0
    while len(words) < VOCABULARY:
        words["".join(chance.choices(_SYLLABLES, k=1 + min(3, tries // 40)))] = None
        tries += 1
    return list(words)
