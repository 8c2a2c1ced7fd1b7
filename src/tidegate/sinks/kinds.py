"""Sinks by kind, so that a command can open a sink without the job's program."""

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
"""The classes of this package, loaded when needed: a command that looks at files does not load Kafka's client."""


def kind_of(sink: TwoPhaseSink) -> str:
    """The kind of exactly this class, if it is registered; empty if only the program can open the sink."""
    kind = vars(type(sink)).get("kind", "")
    return kind if kind and _reference_of(kind) == f"{type(sink).__module__}:{type(sink).__qualname__}" else ""


def sink_class(kind: str) -> type[TwoPhaseSink]:
    """The class of a kind. Raises SINK_OUT_OF_REACH if no installed package has the kind, or if it is not a sink."""
    reference = _reference_of(kind)
    if reference is None:
        raise _out_of_reach(kind, f"no {kind!r}; there are {', '.join(sorted({*_SHIPPED, *registered()}))}")
    module, _, name = reference.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise _out_of_reach(kind, f"{reference}: {error}") from None
    if not (isinstance(found, type) and issubclass(found, TwoPhaseSink)):
        raise _out_of_reach(kind, f"{reference}, which is not a TwoPhaseSink")
    return found


def _reference_of(kind: str) -> str | None:
    return _SHIPPED.get(kind) or registered().get(kind)


@cache
def registered() -> Mapping[str, str]:
    """The kinds that the installed packages register. It imports the module that reads package metadata, which a
    shipped kind does not need.

    If two packages register one kind, Python's first one counts. A shipped kind comes before all others.
    """
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
