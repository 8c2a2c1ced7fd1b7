"""Finds the class of a source by its kind, so that a command can open the source without the job's program.

A package registers its classes as entry points in the group `tidegate.sources`; the name is the class's `kind`.
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
        "channel": "tidegate.channels.described:DescribedChannel",
        "files": "tidegate.sources.files.described:DescribedFiles",
        "kafka": "tidegate.sources.kafka.described:DescribedKafka",
        "kafka-channel": "tidegate.channels.described_topic:DescribedKafkaChannel",
        "socket": "tidegate.sources.socket:DescribedSocket",
    },
    Code.SOURCE_OUT_OF_REACH,
)


def kind_of(source: Source) -> str:
    """The registered kind of this source's class; empty if only the job's program can open the source.

    The registered class may be a base of the source's class: commands can load that one without importing pyspark.
    """
    kind = vars(type(source)).get("kind", "")
    reference = _KINDS.reference_of(kind) if kind else None
    return kind if reference in [f"{each.__module__}:{each.__qualname__}" for each in type(source).__mro__] else ""


def source_class(kind: str) -> type[Source]:
    """The class that is registered for a kind.

    Raises SOURCE_OUT_OF_REACH if no installed package registers it, or if what is registered is not a source.
    """
    found = _KINDS.load(kind)
    if not (isinstance(found, type) and issubclass(found, Source)):
        raise _KINDS.out_of_reach(kind, f"{_KINDS.reference_of(kind)}, which is no Source")
    return found
