"""Reads a stateful Python function from its pickled form in Spark's plan: its name, its state, its code."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class StatefulFunction:
    """`name` and `variables` are None if unknown; `body` is then empty. `variables`: only for a processor, which
    defines its state in code.
    """

    name: str | None = None
    variables: str | None = None
    body: str = ""


def stateful_function(command: bytes, where: str) -> StatefulFunction:
    """The function of this Spark command. It is unpickled once more, as in every worker. For a processor, `init` is
    called with a handle that only records the calls.
    """
    try:
        function, *_ = CloudPickleSerializer().loads(command)
    except Exception as error:  # noqa: BLE001 (whatever unpickling code of the user's raises)
        _LOG.warning("%s: a function with state could not be looked at, and is not compared: %s", where, error)
        return StatefulFunction()
    processor = _processor(function)
    if processor is None:
        return StatefulFunction(getattr(function, "__name__", type(function).__name__), None, _digest(_code(function)))
    kind = type(processor)
    return StatefulFunction(kind.__name__, _variables(processor, where), _digest(_methods(kind)))


def _processor(function: Any) -> StatefulProcessor | None:
    """Spark wraps a processor: the function is a method of an object with the processor as an attribute."""
    owner = getattr(function, "__self__", None)
    values = [] if owner is None else list(vars(owner).values())
    return next((each for each in values if isinstance(each, StatefulProcessor)), None)


def _variables(processor: StatefulProcessor, where: str) -> str | None:
    notes = _Notes()
    try:
        processor.init(notes)
    except Exception as error:  # noqa: BLE001 (code of the user's)
        _LOG.warning("%s: the state of a processor could not be told, and is not compared: %s", where, error)
        return None
    return ", ".join(sorted(notes.variables)) or "none"


class _Notes(StatefulProcessorHandle):
    """A handle without state: it records each variable that a processor requests, and returns none."""

    def __init__(self) -> None:  # not that of its base, which needs a connection
        self.variables: list[str] = []

    def getValueState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> Any:
        self._note("value", stateName, ttlDurationMs, schema)

    def getListState(self, stateName: str, schema: StructType | str, ttlDurationMs: int | None = None) -> Any:
        self._note("list", stateName, ttlDurationMs, schema)

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> Any:
        self._note("map", stateName, ttlDurationMs, userKeySchema, valueSchema)

    def registerTimer(self, expiryTimestampMs: int) -> None:
        pass

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        pass

    def listTimers(self) -> Iterator[int]:
        return iter(())

    def deleteIfExists(self, stateName: str) -> None:
        pass

    def _note(self, kind: str, name: str, ttl: int | None, *schemas: StructType | str) -> None:
        shown = " -> ".join(_schema(each) for each in schemas)
        self.variables.append(f"{kind} {name}({shown}{'; with a time to live' if ttl else ''})")


def _schema(schema: StructType | str) -> str:
    parsed: Any = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in parsed)


def _digest(codes: Iterator[CodeType]) -> str:
    """A description of the code without its line numbers. Each version of Python compiles differently, so it is
    named.
    """
    found = hashlib.sha256()
    for code in codes:
        found.update(repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars)).encode())
        found.update(repr([_constant(each) for each in code.co_consts if not isinstance(each, CodeType)]).encode())
    return f"{sys.version_info.major}.{sys.version_info.minor} {found.hexdigest()[:16]}"


def _constant(value: object) -> object:
    """A constant in a form that is the same in each process: the items of a set are sorted."""
    return sorted(map(repr, value)) if isinstance(value, frozenset) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _code(function: Callable[..., Any]) -> Iterator[CodeType]:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if isinstance(code, CodeType):
        yield from _nested(code)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _nested(each)


def _methods(kind: type) -> Iterator[CodeType]:
    """The methods of the class and of its own bases."""
    for each in kind.__mro__:
        if each in (StatefulProcessor, object):
            continue
        for _, member in sorted(vars(each).items()):
            if isinstance(member, FunctionType):
                yield from _code(member)
