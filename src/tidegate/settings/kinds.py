"""The kinds of values of settings: how to read them from text, numbers and TOML, and how to write them as text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level, read_level
from tidegate.storages.schemes import Folder, Scheme

ValueT = TypeVar("ValueT")


def _plain(value: Any) -> str:
    return value.value if isinstance(value, Enum) else str(value)


@dataclass(frozen=True, slots=True)
class SettingKind(Generic[ValueT]):
    """The values that a setting takes: a description, and the function that reads them. `read` raises ValueError for an
    invalid value.

    `unit_of_flink`: the unit of a bare number under Flink's own key, if it differs from the unit here.
    """

    expected: str
    read: Callable[[object], ValueT]
    write: Callable[[Any], str] = _plain
    unit_of_flink: str | None = None


class Retention(Enum):
    """What happens to a job's checkpoints at a cancel."""

    RETAIN = "retain"
    DELETE = "delete"


class WarmUp(Enum):
    """The way to get an archive of Spark's classes, which makes starts faster."""

    BACKGROUND = "background"
    OFF = "off"


class Backend(Enum):
    """The place where Spark keeps keyed state."""

    HASHMAP = "hashmap"
    ROCKSDB = "rocksdb"


class RestartStrategy(Enum):
    """When and how often a failed job is restarted."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


# --- durations ---------------------------------------------------------------------------------------------


_UNITS = {
    "d": (86400.0, ("day", "days")),
    "h": (3600.0, ("hour", "hours")),
    "min": (60.0, ("m", "minute", "minutes")),
    "s": (1.0, ("sec", "second", "seconds")),
    "ms": (0.001, ("milli", "millis", "millisecond", "milliseconds")),
}
"""Seconds by unit, the longest first, with Flink's other names for it (its TimeUtils)."""
_UNIT_SECONDS = {name: seconds for unit, (seconds, others) in _UNITS.items() for name in (unit, *others)}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *([a-z]*)")


def _seconds(value: object) -> float:
    """A duration in seconds: `500ms`, `1s`, `10min`, `2h`, `1d`, or a number of seconds."""
    match value:
        case bool():
            raise ValueError
        case int() | float():
            seconds = float(value)
        case str():
            written = _DURATION.fullmatch(value.strip())
            if written is None or written[2] not in {"", *_UNIT_SECONDS}:
                raise ValueError
            seconds = float(written[1]) * _UNIT_SECONDS.get(written[2], 1.0)
        case _:
            raise ValueError
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError
    return seconds


def _duration_text(seconds: float) -> str:
    """The duration in the longest unit that gives a whole number: `10min`, `1500ms`."""
    if seconds == 0:
        return "0"
    for unit, (length, _) in _UNITS.items():
        count = seconds / length
        if round(count) >= 1 and math.isclose(count, round(count), rel_tol=1e-9):
            return f"{round(count)}{unit}"
    return f"{seconds:g}s"


# --- paths, numbers, flags ---------------------------------------------------------------------------------


def _local_folder(value: object) -> str:
    """A path as text; `file:///path` loses its scheme, any other scheme is refused."""
    text = value if isinstance(value, str) else _path_text(value)
    path = text.removeprefix("file://") if text.startswith("file:///") else text
    if not path.strip() or "\0" in path or "://" in path:
        raise ValueError
    return path


def _folder(value: object) -> str:
    """A path like that of `_local_folder`, or the URI of a folder of another storage, with its server or bucket."""
    if not isinstance(value, str) or "://" not in value or value.startswith("file:///"):
        return _local_folder(value)
    try:
        folder = Folder.of(value)
    except TidegateError:
        raise ValueError from None
    return str(folder)


def _path_text(value: object) -> str:
    """The text of a path object, for example of a `pathlib.Path`. Raises ValueError for any other object.

    A path object is recognized by its method `__fspath__`. This module does not import `pathlib` for that, because it
    may not import modules that do I/O.
    """
    text = getattr(value, "__fspath__", lambda: None)()
    if not isinstance(text, str):
        raise ValueError
    return text


def _count(least: int) -> Callable[[object], int]:
    """Reads a whole number of at least `least`."""

    def read(value: object) -> int:
        number = int(value) if isinstance(value, str) and re.fullmatch(r" *\d{1,9} *", value) else value
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ValueError
        return number

    return read


def number_between(least: float, most: float, expected: str) -> SettingKind[float]:
    """A number between `least` and `most`, both included."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
        if not math.isfinite(number) or not least <= number <= most:
            raise ValueError
        return number

    return SettingKind(expected, read, lambda value: f"{value:g}")


def _flag(value: object) -> bool:
    """Read `true` or `false`, given as text or as a bool. Raises ValueError for any other value."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError


def optional(kind: SettingKind[ValueT]) -> SettingKind[ValueT | None]:
    """The same kind, for a setting that may be unset: an empty text (the default) is read as None."""
    return SettingKind(
        f"{kind.expected}, or nothing",
        lambda value: None if value == "" else kind.read(value),
        lambda value: "" if value is None else kind.write(value),
    )


# --- one of several ----------------------------------------------------------------------------------------


ChoiceT = TypeVar("ChoiceT", bound=Enum)


def _one_of(choices: type[ChoiceT], of_flink: Mapping[str, ChoiceT]) -> SettingKind[ChoiceT]:
    """One of the texts of a closed set, or Flink's name for it. `-` and `_` are equal, and so are capital and small
    letters."""

    def read(value: object) -> ChoiceT:
        if isinstance(value, choices):
            return value
        if not isinstance(value, str):
            raise ValueError
        text = value.strip().lower().replace("_", "-")
        return of_flink.get(text) or choices(text)

    return SettingKind(f"one of {', '.join(choice.value for choice in choices)}", read)


_RETENTIONS_OF_FLINK = {
    "retain-on-cancellation": Retention.RETAIN,
    "delete-on-cancellation": Retention.DELETE,
    "no-externalized-checkpoints": Retention.DELETE,
}
_CLASSES_OF_FLINK = {
    "hashmapstatebackend": Backend.HASHMAP,
    "fsstatebackend": Backend.HASHMAP,
    "memorystatebackend": Backend.HASHMAP,
    "embeddedrocksdbstatebackend": Backend.ROCKSDB,
    "rocksdbstatebackend": Backend.ROCKSDB,
}
_BACKENDS_OF_FLINK = {"filesystem": Backend.HASHMAP, "jobmanager": Backend.HASHMAP, **_CLASSES_OF_FLINK}
"""`filesystem` and `jobmanager` are Flink 1.x names of its heap backend, from the place of its checkpoints."""
_STRATEGIES_OF_FLINK = {
    "off": RestartStrategy.NONE,
    "disable": RestartStrategy.NONE,
    "fixeddelay": RestartStrategy.FIXED_DELAY,
    "failurerate": RestartStrategy.FAILURE_RATE,
    "exponentialdelay": RestartStrategy.EXPONENTIAL_DELAY,
}


def _backend(value: object) -> Backend:
    """A backend by its name, or by the name of Flink's class or factory, with or without its package."""
    if isinstance(value, str) and value.strip().lower().endswith(("statebackend", "statebackendfactory")):
        return _named_backend.read(value.strip().rpartition(".")[2].lower().removesuffix("factory"))
    return _named_backend.read(value)


_named_backend = _one_of(Backend, _BACKENDS_OF_FLINK)


LEVEL = SettingKind(f"one of {', '.join(level.value for level in Level)}", read_level)
DURATION = SettingKind(
    "a duration such as 500ms, 1s, 10min, or a number of seconds", _seconds, _duration_text, "milliseconds"
)
LOCAL_FOLDER = SettingKind("a path", _local_folder)
FOLDER = SettingKind(f"a path, or a URI of a storage ({', '.join(f'{each.value}:' for each in Scheme)})", _folder)
FLAG = SettingKind("true or false", _flag, lambda value: str(value).lower())
COUNT_FROM_0 = SettingKind("a whole number, 0 or more", _count(0))
COUNT_FROM_1 = SettingKind("a whole number, 1 or more", _count(1))
RETENTION = _one_of(Retention, _RETENTIONS_OF_FLINK)
WARM_UP = _one_of(WarmUp, {})
BACKEND = SettingKind(_named_backend.expected, _backend)
STRATEGY = _one_of(RestartStrategy, _STRATEGIES_OF_FLINK)
