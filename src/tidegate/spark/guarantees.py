"""The guarantees of a job's sinks, from what its program has declared."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidegate.core.guarantees import Guarantee, Rows, guarantee_of
from tidegate.core.levels import Level
from tidegate.operate.app_check import GUARANTEED
from tidegate.spark.declared import DeclaredQuery
from tidegate.spark.sources.declaring import DeclaredSource


def guarantees_of(queries: Iterable[DeclaredQuery], sources: Mapping[str, Rows], mode: Level) -> Sequence[Guarantee]:
    """One for each sink of each query."""
    return [
        found
        for query in queries
        for sink in query.sinks
        if (found := guarantee_of(query.uid, sink.uid, _read_by(query, sources), mode, sink.shows, sink.delivery))
    ]


def rows_of(inputs: Mapping[str, DeclaredSource]) -> Mapping[str, Rows]:
    """What sources declare that give their rows once. All others of a job were vouched for: their rows can be read
    again."""
    logged = {
        uid: Rows.LOGGED for uid, each in inputs.items() if each.positioned is not None and each.positioned.writes
    }
    return {**{uid: Rows.LIVE for uid, each in inputs.items() if each.loses_what_arrives}, **logged}


def say_guarantees(guarantees: Iterable[Guarantee]) -> None:
    """Print the guarantees on the standard error.

    `tidegate check app.py`, which has started this program, reads them.
    """
    for each in guarantees:
        print(f"{GUARANTEED}{msgspec.json.encode(each).decode()}", file=sys.stderr, flush=True)


def _read_by(query: DeclaredQuery, sources: Mapping[str, Rows]) -> Mapping[str, Rows]:
    return {uid: sources.get(uid, Rows.REPLAYED) for uid in query.sources}
