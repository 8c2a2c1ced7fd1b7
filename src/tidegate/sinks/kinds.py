"""Sinks by kind, so that a command opens a sink without the job's program.

A package registers its classes as entry points of the group `tidegate.sinks`: the name is the `kind` of the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.base import TwoPhaseSink

GROUP: Final = "tidegate.sinks"

_SHIPPED: Final[Mapping[str, str]] = {
    "files": "tidegate.sinks.files.sink:FileSink",
    "kafka": "tidegate.sinks.kafka.sink:KafkaSink",
    "sqlite": "tidegate.sinks.sqlite.sink:SQLiteSink",
}
"""Those of this package, loaded when needed: a command that looks at files does not wait for Kafka's client."""


def kind_of(sink: TwoPhaseSink) -> str:
    """The kind under which the very class of the sink is registered; empty where only the program can open it."""
    kind = vars(type(sink)).get("kind", "")
    return kind if kind and _reference_of(kind) == f"{type(sink).__module__}:{type(sink).__qualname__}" else ""


def sink_class(kind: str) -> type[TwoPhaseSink]:
    """The class of a kind. Raises SINK_OUT_OF_REACH where no package that is installed has it, or it is no sink."""
    reference = _reference_of(kind)
    if reference is None:
        raise _out_of_reach(kind, f"no {kind!r}; there are {', '.join(sorted({*_SHIPPED, *registered()}))}")
    module, _, name = reference.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _out_of_reach(kind, f"{reference}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, TwoPhaseSink)):
        raise _out_of_reach(kind, f"{reference}, which is no TwoPhaseSink")
    return found


def _reference_of(kind: str) -> str | None:
    return _SHIPPED.get(kind) or registered().get(kind)


@cache
def registered() -> Mapping[str, str]:
    """What the installed packages register, by kind. Loads what reads their metadata, which a shipped kind needs not.

    Where two packages register one kind, the first that Python finds counts, and a shipped one before it."""
    from importlib.metadata import entry_points

    return {each.name: each.value for each in reversed(list(entry_points(group=GROUP)))}


def _out_of_reach(kind: str, found: str) -> TidegateError:
    return TidegateError(
        Code.SINK_OUT_OF_REACH,
        expected=f"a sink of the kind {kind!r} among the entry points {GROUP!r}",
        found=found,
        where="the packages that are installed here",
        next_step="install the package that has it in the environment of this command, or start the job instead",
    )
