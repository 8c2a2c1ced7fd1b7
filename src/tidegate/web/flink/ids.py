"""The ids of Flink's views: 32 hex digits for a vertex, a number for a checkpoint."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence

_HEX_DIGITS = re.compile("[0-9A-Fa-f]{32}")


def vertex_id(query: str) -> str:
    """The id of the vertex that stands for a query."""
    return hashlib.sha256(query.encode()).hexdigest()[:32]


def checkpoint_id(query: str, epoch: int, queries: Sequence[str]) -> int:
    """The number of the checkpoint that stands for an epoch. `queries`: all of the job, sorted.

    Of a job with one query it is the epoch. Of n queries: n times the epoch, plus the place of the query. A query that
    the job no longer has counts as the first one.
    """
    place = queries.index(query) if query in queries else 0
    return epoch * max(len(queries), 1) + place


def trigger_id(chosen: str | None) -> str:
    """The id of a trigger: what the caller has chosen, or a new one. 32 hex digits in capitals are the same id; another
    id, of a request that was not made through Flink's routes, stays as it is."""
    if chosen is None:
        return secrets.token_hex(16)
    return chosen.lower() if _HEX_DIGITS.fullmatch(chosen) else chosen
