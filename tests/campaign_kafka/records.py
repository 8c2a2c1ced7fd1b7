"""The input: numbered records of keys that come and go, each key with a number for each of its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

_KEYS_AT_A_TIME = 400
_RECORDS_PER_NEW_KEY = 40


@dataclass(frozen=True, slots=True)
class Records:
    """The input by number: the key of each record, and how many records of that key came before it."""

    keys: Ints
    seqs: Ints

    @staticmethod
    def draw(count: int, seed: int) -> Records:
        """Keys from a window that moves on: all the time there are keys of which the state knows nothing yet."""
        chance = np.random.default_rng(seed)
        keys = np.arange(count) // _RECORDS_PER_NEW_KEY + chance.integers(0, _KEYS_AT_A_TIME, count)
        return Records.of(keys.astype(np.int64))

    @staticmethod
    def of(keys: Ints) -> Records:
        """The records with these keys, in this order."""
        order = np.argsort(keys, kind="stable")
        grouped = keys[order]
        begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if len(keys) else np.zeros(0, np.int64)
        sizes = np.diff(np.r_[begins, len(keys)])
        seqs = np.empty(len(keys), np.int64)
        seqs[order] = np.arange(len(keys)) - np.repeat(begins, sizes)
        return Records(keys, seqs)

    def __len__(self) -> int:
        return len(self.keys)

    def message(self, number: int) -> tuple[bytes, bytes]:
        """Key and value of a record, as they are written to the input topic."""
        key = key_text(int(self.keys[number]))
        value = f'{{"number":{number},"key":"{key}","seq":{self.seqs[number]}}}'
        return key.encode(), value.encode()


def key_text(key: int) -> str:
    """How a key is spelt in topics and tables."""
    return f"k{key}"


def key_number(text: str) -> int:
    """The key that is spelt so; -1 for one that nobody has written."""
    return int(text[1:]) if text[:1] == "k" and text[1:].isdigit() else -1
