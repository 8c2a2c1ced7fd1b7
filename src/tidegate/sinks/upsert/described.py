"""The description of an upsert sink that a start writes: that of the plain sink of its database, and which it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidegate.sinks.kinds import sink_class


class UpsertTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of an `UpsertSink`. `database`: the kind of its plain sink. `path`: of a SQLite database. `settings`:
    of a server. `left_out`: the names of options that may hold secrets.
    """

    database: str
    table: str
    key: tuple[str, ...]
    path: str = ""
    settings: dict[str, str] = {}
    schema: str | None = None
    deleted: str | None = None
    invalid_text: str = "refuse"
    left_out: tuple[str, ...] = ()


def reopened(described: Mapping[str, object], put_in: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of an `UpsertSink`. `put_in`: the settings that were left out."""
    target = msgspec.convert(described, UpsertTarget)
    return {
        "url": Path(target.path) if target.path else _URLS[target.database],
        "table": target.table,
        "key": target.key,
        "schema": target.schema,
        "deleted": target.deleted,
        "invalid_text": target.invalid_text,
        "options": {**target.settings, **{name: put_in[name] for name in target.left_out}},
    }


def told_of(described: Mapping[str, object]) -> str:
    """The target in a few words."""
    target = msgspec.convert(described, UpsertTarget)
    return f"{sink_class(target.database).told(described)}, by key inside the epoch"


_URLS = {"postgres": "postgresql://", "mysql": "mysql://"}
"""The settings complete them."""
