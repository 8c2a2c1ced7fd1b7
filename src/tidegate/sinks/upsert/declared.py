"""The options of an upsert sink as the program declares them: what leads to its database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredUpsertSink:
    """The options of an `UpsertSink`. `schema`: None if it is not given."""

    uid: str
    url: str | os.PathLike[str]
    table: str
    key: tuple[str, ...]
    schema: str | None
    deleted: str | None
    invalid_text: str
    options: Mapping[str, Any]
    delivery: str | None

    @property
    def shared(self) -> dict[str, Any]:
        """The options that the plain sinks of all databases have."""
        return {"table": self.table, "key": self.key, "invalid_text": self.invalid_text, "delivery": self.delivery}
