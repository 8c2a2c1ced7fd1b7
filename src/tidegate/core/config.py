"""The settings of a job: one table, and three places that may set them.

In rising order, over the defaults: the program (`Job("name", checkpointing_interval="1s")`), the environment
(`TIDEGATE_CHECKPOINTING_INTERVAL=1s`), and `-D checkpointing.interval=1s`. In names `.`, `-` and `_` are the same,
and so are capital and small letters; Flink's own keys are known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import Enum
from typing import Any, Generic, TypeVar

from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.levels import Level, read_level

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Kind(Generic[ValueT]):
    """What values a setting takes: in words, and how they are read. `read` raises ValueError for what does not fit.

    `unit_of_flink`: what a bare number counts under Flink's own key, where that differs from here.
    """

    expected: str
    read: Callable[[object], ValueT]
    unit_of_flink: str | None = None


@dataclass(frozen=True, slots=True)
class Setting(Generic[ValueT]):
    """One setting: its name, kind, default (as a user would write it), meaning, and Flink's keys for it."""

    name: str
    kind: Kind[ValueT]
    default: str
    meaning: str
    flink: tuple[str, ...] = ()


class Place(Enum):
    """Where a value came from, in rising order."""

    CODE = "program"
    ENVIRONMENT = "environment"
    OVERRIDE = "-D"


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that set a value, and the name it used there."""

    place: Place
    name: str

    def __str__(self) -> str:
        return f"{self.place.value}: {self.name}"


# --- kinds of values ---------------------------------------------------------------------------------------


_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) *([a-z]*)")
_BARE_NUMBER = re.compile(r"\d*[1-9]\d*(\.\d+)?|0\.\d*[1-9]\d*")


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


def _local_folder(value: object) -> str:
    """A path as text; `file:///path` loses its scheme, any other scheme is refused."""
    text = value if isinstance(value, str) else _path_text(value)
    path = text.removeprefix("file://") if text.startswith("file:///") else text
    if not path.strip() or "\0" in path or "://" in path:
        raise ValueError
    return path


def _path_text(value: object) -> str:
    """The text of a path object, told by its method: nothing here may import a module that does I/O."""
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


def _number(least: float, most: float) -> Callable[[object], float]:
    """Reads a number between `least` and `most`, both included."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
        if not least <= number <= most:
            raise ValueError
        return number

    return read


def _flag(value: object) -> bool:
    """`true` or `false`, as text or as a bool."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError


def _optional(kind: Kind[ValueT]) -> Kind[ValueT | None]:
    """The same kind, where an empty text (the default) means: not set."""
    return Kind(f"{kind.expected}, or nothing", lambda value: None if value == "" else kind.read(value))


class Retention(Enum):
    """What becomes of a job's checkpoints when it is cancelled."""

    RETAIN = "retain"
    DELETE = "delete"


class Backend(Enum):
    """Where Spark keeps keyed state."""

    HASHMAP = "hashmap"
    ROCKSDB = "rocksdb"


class Strategy(Enum):
    """How often, and after which pause, a failed job is started again."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


ChoiceT = TypeVar("ChoiceT", bound=Enum)


def _one_of(choices: type[ChoiceT]) -> Kind[ChoiceT]:
    """One of the texts of a closed set; `-` and `_`, capital and small letters are the same."""

    def read(value: object) -> ChoiceT:
        if isinstance(value, choices):
            return value
        if not isinstance(value, str):
            raise ValueError
        return choices(value.strip().lower().replace("_", "-"))

    return Kind(f"one of {', '.join(choice.value for choice in choices)}", read)


LEVEL = Kind(f"one of {', '.join(level.value for level in Level)}", read_level)
DURATION = Kind("a duration such as 500ms, 1s, 10min, or a number of seconds", _seconds, "milliseconds")
LOCAL_FOLDER = Kind("the path of a folder on a local disk", _local_folder)
FLAG = Kind("true or false", _flag)
COUNT_FROM_0 = Kind("a whole number, 0 or more", _count(0))
COUNT_FROM_1 = Kind("a whole number, 1 or more", _count(1))
RETENTION = _one_of(Retention)
BACKEND = _one_of(Backend)
STRATEGY = _one_of(Strategy)


# --- the settings ------------------------------------------------------------------------------------------


def _setting(name: str, kind: Kind[ValueT], default: str, meaning: str, flink: tuple[str, ...] = ()) -> ValueT:
    entry = Setting(name, kind, default, meaning, flink)
    return field(default=kind.read(default), metadata={_ENTRY: entry})


_ENTRY = "setting"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The value of every setting, and where it came from; each attribute is an entry of the table."""

    checkpointing_dir: str = _setting(
        "checkpointing.dir",
        LOCAL_FOLDER,
        "./.tidegate",
        "where a job keeps everything durable, in a folder of its own name; so the same program can be run twice",
        flink=("execution.checkpointing.dir", "state.checkpoints.dir"),
    )
    checkpointing_interval: float = _setting(
        "checkpointing.interval",
        DURATION,
        "10s",
        "least time between the starts of two epochs; 0: as fast as possible",
        flink=("execution.checkpointing.interval",),
    )
    checkpointing_mode: Level = _setting(
        "checkpointing.mode",
        LEVEL,
        "exactly-once",
        "what every sink gives unless its `delivery` says otherwise: exactly-once, at-least-once or at-most-once",
        flink=("execution.checkpointing.mode",),
    )
    savepoints_dir: str | None = _setting(
        "savepoints.dir",
        _optional(LOCAL_FOLDER),
        "",
        "where savepoints go unless a command says otherwise",
        flink=("execution.checkpointing.savepoint-dir", "state.savepoints.dir"),
    )
    checkpointing_timeout: float = _setting(
        "checkpointing.timeout",
        DURATION,
        "10min",
        "an epoch that is not prepared this long after it was let in is cancelled and run again with the same input",
        flink=("execution.checkpointing.timeout",),
    )
    checkpointing_min_pause: float = _setting(
        "checkpointing.min_pause",
        DURATION,
        "0",
        "least time from the end of one epoch's commits to the start of the next epoch",
        flink=("execution.checkpointing.min-pause",),
    )
    checkpointing_max_concurrent: int = _setting(
        "checkpointing.max_concurrent",
        COUNT_FROM_1,
        "1",
        "decided epochs that may still be uncommitted; more than 1 only where every sink stages its rows",
        flink=("execution.checkpointing.max-concurrent-checkpoints",),
    )
    checkpointing_tolerable_failures: int = _setting(
        "checkpointing.tolerable_failures",
        COUNT_FROM_0,
        "0",
        "failed epochs in a row before the job fails; a failed epoch is replayed, never skipped",
        flink=("execution.checkpointing.tolerable-failed-checkpoints",),
    )
    checkpointing_retention: Retention = _setting(
        "checkpointing.retention",
        RETENTION,
        "retain",
        "what becomes of the checkpoints when the job is cancelled; a failed job always keeps them",
        flink=("execution.checkpointing.externalized-checkpoint-retention",),
    )
    checkpointing_retained: int = _setting(
        "checkpointing.retained",
        COUNT_FROM_1,
        "1",
        "checkpoints that are listed and can be restored",
        flink=("execution.checkpointing.num-retained", "state.checkpoints.num-retained"),
    )
    checkpointing_unaligned: bool = _setting(
        "checkpointing.unaligned",
        FLAG,
        "false",
        "jobs of several queries joined by channels: barriers overtake rows",
        flink=("execution.checkpointing.unaligned.enabled", "execution.checkpointing.unaligned"),
    )
    checkpointing_aligned_timeout: float = _setting(
        "checkpointing.aligned_timeout",
        DURATION,
        "0",
        "jobs of several queries joined by channels: how long a barrier stays aligned before it overtakes rows",
        flink=("execution.checkpointing.aligned-checkpoint-timeout",),
    )
    checkpointing_after_tasks_finish: bool = _setting(
        "checkpointing.after_tasks_finish",
        FLAG,
        "true",
        "a bounded job ends with one more epoch, for what is due at its end",
        flink=("execution.checkpointing.checkpoints-after-tasks-finish",),
    )
    state_backend: Backend = _setting(
        "state.backend",
        BACKEND,
        "rocksdb",
        "where keyed state is kept: in memory (hashmap) or in RocksDB",
        flink=("state.backend.type",),
    )
    state_incremental: bool = _setting(
        "state.incremental",
        FLAG,
        "true",
        "rocksdb: an epoch uploads what has changed, not the whole state",
        flink=("execution.checkpointing.incremental", "state.backend.incremental"),
    )
    state_changelog: bool = _setting(
        "state.changelog",
        FLAG,
        "true",
        "rocksdb: an epoch writes a log of its changes, snapshots follow in the background",
        flink=("state.changelog.enabled", "state.backend.changelog.enabled"),
    )
    parallelism: int | None = _setting(
        "parallelism",
        _optional(COUNT_FROM_1),
        "",
        "partitions of keyed state: fixed by the first epoch. Not set: the cores of a local session, else Spark's",
        flink=("parallelism.default",),
    )
    stop_timeout: float = _setting(
        "stop_timeout", DURATION, "5min", "how long a stop waits for a sink that does not take a decided epoch"
    )
    lease_timeout: float = _setting(
        "lease.timeout", DURATION, "30s", "how long a start waits for the JVM of a driver that has died"
    )
    progress_timeout: float = _setting(
        "progress_timeout",
        DURATION,
        "10min",
        "when the supervisor ends a driver that is alive and does nothing; 0: never",
    )
    restart_strategy: Strategy = _setting(
        "restart.strategy",
        STRATEGY,
        "exponential-delay",
        "how a failed job is started again",
        flink=("restart-strategy.type", "restart-strategy"),
    )
    restart_fixed_delay_attempts: int = _setting(
        "restart.fixed_delay.attempts",
        COUNT_FROM_0,
        "1",
        "restarts before the job fails for good",
        flink=("restart-strategy.fixed-delay.attempts",),
    )
    restart_fixed_delay_delay: float = _setting(
        "restart.fixed_delay.delay",
        DURATION,
        "1s",
        "pause before each restart",
        flink=("restart-strategy.fixed-delay.delay",),
    )
    restart_failure_rate_max_failures: int = _setting(
        "restart.failure_rate.max_failures",
        COUNT_FROM_1,
        "1",
        "failures within the interval before the job fails for good",
        flink=("restart-strategy.failure-rate.max-failures-per-interval",),
    )
    restart_failure_rate_interval: float = _setting(
        "restart.failure_rate.interval",
        DURATION,
        "1min",
        "the interval in which failures are counted",
        flink=("restart-strategy.failure-rate.failure-rate-interval",),
    )
    restart_failure_rate_delay: float = _setting(
        "restart.failure_rate.delay",
        DURATION,
        "1s",
        "pause before each restart",
        flink=("restart-strategy.failure-rate.delay",),
    )
    restart_exponential_initial: float = _setting(
        "restart.exponential.initial",
        DURATION,
        "1s",
        "pause before the first restart",
        flink=("restart-strategy.exponential-delay.initial-backoff",),
    )
    restart_exponential_max: float = _setting(
        "restart.exponential.max",
        DURATION,
        "1min",
        "longest pause before a restart",
        flink=("restart-strategy.exponential-delay.max-backoff",),
    )
    restart_exponential_multiplier: float = _setting(
        "restart.exponential.multiplier",
        Kind("a number of 1 or more", _number(1.0, math.inf)),
        "1.5",
        "what the pause is multiplied with after each failure",
        flink=("restart-strategy.exponential-delay.backoff-multiplier",),
    )
    restart_exponential_reset: float = _setting(
        "restart.exponential.reset",
        DURATION,
        "1h",
        "time without a failure after which the pause is the first one again",
        flink=("restart-strategy.exponential-delay.reset-backoff-threshold",),
    )
    restart_exponential_jitter: float = _setting(
        "restart.exponential.jitter",
        Kind("a number from 0 to 1", _number(0.0, 1.0)),
        "0.1",
        "the part of the pause by which it varies at random",
        flink=("restart-strategy.exponential-delay.jitter-factor",),
    )
    restart_exponential_attempts: int | None = _setting(
        "restart.exponential.attempts",
        _optional(COUNT_FROM_1),
        "",
        "restarts without a reset of the pause before the job fails for good; not set: no limit",
        flink=("restart-strategy.exponential-delay.attempts-before-reset-backoff",),
    )
    origins: Mapping[str, Origin] = field(default_factory=dict[str, Origin])
    """By name of a setting, who set it; what is not in here has its default."""

    @classmethod
    def load(
        cls, code: Mapping[str, object], environment: Mapping[str, str], overrides: Sequence[str] = ()
    ) -> Settings:
        """Read all places. `overrides` are texts `key=value`; of two for one setting the later wins.

        Raises one error that lists every unknown name (SETTING_UNKNOWN) and every bad value (SETTING_VALUE).
        """
        values: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        violations = [
            error
            for origin, raw in _given(code, environment, overrides)
            if (error := _take(values, origins, origin, raw)) is not None
        ]
        raise_all(violations, "the settings of the job")
        return cls(**values, origins=origins)


SETTINGS: Mapping[str, Setting[Any]] = {
    each.name: each.metadata[_ENTRY] for each in fields(Settings) if _ENTRY in each.metadata
}
"""The table: every setting there is, by its attribute."""

NOT_SETTINGS = frozenset(
    {
        "TIDEGATE_OVERRIDES",
        "TIDEGATE_CONFIG",
        "TIDEGATE_SUPERVISED",
        "TIDEGATE_PLACE",
        "TIDEGATE_TESTING",
        "TIDEGATE_FAILPOINTS",
        "TIDEGATE_STRIKES",
    }
)
"""The variables of the environment that begin like a setting and are none."""


# --- reading the places ------------------------------------------------------------------------------------


_ENVIRONMENT_PREFIX = "TIDEGATE_"


def _folded(name: str) -> str:
    """A name with everything made equal that counts as equal."""
    return re.sub(r"[.-]", "_", name.strip().lower())


_ATTRIBUTES: dict[str, str] = {
    _folded(name): attribute for attribute, setting in SETTINGS.items() for name in (setting.name, *setting.flink)
}


def _given(
    code: Mapping[str, object], environment: Mapping[str, str], overrides: Sequence[str]
) -> Iterator[tuple[Origin, object]]:
    """Everything that was set, the strongest place last."""
    for name, value in code.items():
        yield Origin(Place.CODE, name), value
    for name, value in environment.items():
        if name.startswith(_ENVIRONMENT_PREFIX) and name not in NOT_SETTINGS:
            yield Origin(Place.ENVIRONMENT, name), value
    for override in overrides:
        name, equals, value = override.partition("=")
        yield Origin(Place.OVERRIDE, name), value if equals else None


def _take(values: dict[str, Any], origins: dict[str, Origin], origin: Origin, raw: object) -> TidegateError | None:
    """Set one value, or say what stands against it."""
    key = origin.name.removeprefix(_ENVIRONMENT_PREFIX) if origin.place is Place.ENVIRONMENT else origin.name
    attribute = _ATTRIBUTES.get(_folded(key))
    if attribute is None:
        return _unknown(origin, key)
    setting = SETTINGS[attribute]
    before = origins.get(setting.name)
    if before is not None and before.place is origin.place is not Place.OVERRIDE:
        return _given_twice(setting, before, origin)
    origins[setting.name] = origin
    try:
        values[attribute] = _value(setting, origin, key, raw)
    except TidegateError as error:
        return error
    return None


def _value(setting: Setting[Any], origin: Origin, key: str, raw: object) -> object:
    if raw is None and origin.place is Place.OVERRIDE:
        raise _bad_value(setting, origin, "no `=value` after the name")
    if setting.kind.unit_of_flink and _folded(key) != _folded(setting.name) and _BARE_NUMBER.fullmatch(str(raw)):
        counted = f"{raw}: a bare number, which Flink counts in {setting.kind.unit_of_flink}"
        raise _bad_value(setting, origin, counted, "write the unit")
    try:
        return setting.kind.read(raw)
    except ValueError:
        raise _bad_value(setting, origin, repr(raw)) from None


def _unknown(origin: Origin, key: str) -> TidegateError:
    near = get_close_matches(_folded(key), _ATTRIBUTES, n=1)
    known = ", ".join(setting.name for setting in SETTINGS.values())
    return TidegateError(
        Code.SETTING_UNKNOWN,
        expected=f"one of {known}",
        found=key,
        where=str(origin),
        next_step=f"did you mean {SETTINGS[_ATTRIBUTES[near[0]]].name}?" if near else "leave it out",
    )


def _bad_value(setting: Setting[Any], origin: Origin, found: str, next_step: str = "mend the value") -> TidegateError:
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"{setting.name} = {setting.kind.expected}",
        found=found,
        where=str(origin),
        next_step=next_step,
    )


def _given_twice(setting: Setting[Any], first: Origin, second: Origin) -> TidegateError:
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"one value for {setting.name} in one place",
        found=f"{first.name} and {second.name}",
        where=str(second),
        next_step="leave one of them out",
    )
