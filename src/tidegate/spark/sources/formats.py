"""Spark's own streaming formats, and the traits of each, as a source of tidegate would declare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.sources.base import Absence, Begins, Replay, Traits


@dataclass(frozen=True, slots=True)
class SparkFormat:
    """A streaming format of Spark.

    `newest`: options that let the format begin after its newest row. `in_plans`: the end of its name in a query
    plan, if that differs from the format's name.
    """

    traits: Traits
    newest: Mapping[str, str] = field(default_factory=dict[str, str])
    in_plans: str = ""


_TABLE = SparkFormat(Traits(Replay.EXACT, Begins.OLDEST))

FORMATS: Mapping[str, SparkFormat] = {
    "csv": _TABLE,
    "delta": _TABLE,
    "iceberg": _TABLE,
    "json": _TABLE,
    "kafka": SparkFormat(Traits(Replay.EXACT, Begins.EITHER), {"startingOffsets": "latest"}),
    "orc": _TABLE,
    "parquet": _TABLE,
    "rate": SparkFormat(Traits(Replay.EXACT, Begins.NEWEST)),
    "rate-micro-batch": _TABLE,
    "socket": SparkFormat(Traits(Replay.NONE, Begins.NEWEST, Absence.LOST), in_plans="textsocketsourceprovider"),
    "text": _TABLE,
}
"""By the name of the format in lower case. A format that is not here has declared nothing."""

_FILES = "filesource["


def is_of_files(name: str) -> bool:
    """True if this name in a query plan is that of Spark's file source."""
    return name.lower().startswith(_FILES)


def format_in_plan(name: str) -> SparkFormat | None:
    """The format of a stream with this name in the query plan; None if its traits are not known."""
    if is_of_files(name):
        return _TABLE
    lower = name.lower()
    known = {each.in_plans: each for each in FORMATS.values() if each.in_plans}
    return FORMATS.get(lower) or next((each for end, each in known.items() if lower.endswith(end)), None)
