"""Sources by kind, so that a command opens a source without the job's program.

A package registers its classes as entry points of the group `tidegate.sources`: the name is the `kind` of the class.
"""

from __future__ import annotations

from typing import Final

from tidegate.core.errors import Code
from tidegate.settings.entry_points import Kinds
from tidegate.sources.base import Source

_KINDS: Final = Kinds(
    "tidegate.sources",
    "source",
    {
        "files": "tidegate.sources.files.described:DescribedFiles",
        "kafka": "tidegate.sources.kafka.described:DescribedKafka",
        "socket": "tidegate.sources.socket:DescribedSocket",
    },
    Code.SOURCE_OUT_OF_REACH,
)


def kind_of(source: Source) -> str:
    """The kind under which the very class of the source is registered; empty where only the program can open it.

    What is registered may be a base of the class, which commands can load: they import no pyspark.
    """
    kind = vars(type(source)).get("kind", "")
    reference = _KINDS.reference_of(kind) if kind else None
    return kind if reference in [f"{each.__module__}:{each.__qualname__}" for each in type(source).__mro__] else ""


def source_class(kind: str) -> type[Source]:
    """The class of a kind. Raises SOURCE_OUT_OF_REACH where no package that is installed has it, or it is no source."""
    found = _KINDS.load(kind)
    if not (isinstance(found, type) and issubclass(found, Source)):
        raise _KINDS.out_of_reach(kind, f"{_KINDS.reference_of(kind)}, which is no Source")
    return found
