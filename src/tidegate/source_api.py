"""Everything that the author of a source imports, in one module. See docs/how-to/write-a-source.md."""

from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding, failed, ok, warn
from tidegate.sources.base import Absence, Begins, Position, Range, Replay, RowSource, Source, Traits

__all__ = [
    "Absence",
    "Begins",
    "Code",
    "Finding",
    "Position",
    "Range",
    "Replay",
    "RowSource",
    "Source",
    "TidegateError",
    "Traits",
    "failed",
    "ok",
    "warn",
]
