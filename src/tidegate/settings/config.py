"""The settings of a job: one table, and the places that may set them.

In rising order, over the defaults: the program (`Job("name", checkpointing_interval="1s")`), the file `tidegate.toml`,
the environment (`TIDEGATE_CHECKPOINTING_INTERVAL=1s`), and `-D checkpointing.interval=1s`. In names `.`, `-` and `_`
are the same, and so are capital and small letters; Flink's own keys and values are known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Generic

from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.levels import Level
from tidegate.settings.given import Given, Missing, Origin, Place, SettingsFile, everything_given, shown
from tidegate.settings.kinds import (
    BACKEND,
    COUNT_FROM_0,
    COUNT_FROM_1,
    DURATION,
    FLAG,
    LEVEL,
    LOCAL_FOLDER,
    RETENTION,
    STRATEGY,
    Backend,
    Kind,
    Retention,
    Strategy,
    ValueT,
    number_between,
    optional,
)
from tidegate.settings.rules import notes, violations


@dataclass(frozen=True, slots=True)
class Setting(Generic[ValueT]):
    """One setting: its name, kind, default (as a user would write it), meaning, and Flink's keys for it."""

    name: str
    kind: Kind[ValueT]
    default: str
    meaning: str
    flink: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as it is shown: its value as text (empty: not set), and who set it."""

    attribute: str
    name: str
    value: str
    origin: str
    meaning: str


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
        optional(LOCAL_FOLDER),
        "",
        "where savepoints go unless a command says otherwise; where it is set, `tidegate stop` takes one",
        flink=("execution.checkpointing.savepoint-dir", "state.savepoints.dir"),
    )
    checkpointing_timeout: float = _setting(
        "checkpointing.timeout",
        DURATION,
        "10min",
        "an epoch that is not prepared this long after it was let in is cancelled and run again with the same input "
        "and twice the time",
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
        flink=("execution.checkpointing.aligned-checkpoint-timeout", "execution.checkpointing.alignment-timeout"),
    )
    checkpointing_after_tasks_finish: bool = _setting(
        "checkpointing.after_tasks_finish",
        FLAG,
        "true",
        "a bounded job ends with one more epoch, for what is due at its end",
        flink=(
            "execution.checkpointing.checkpoints-after-tasks-finish",
            "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
        ),
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
        "rocksdb: a snapshot shares the files that have not changed; false: each one is the whole state, written anew",
        flink=("execution.checkpointing.incremental", "state.backend.incremental"),
    )
    state_changelog: bool = _setting(
        "state.changelog",
        FLAG,
        "true",
        "rocksdb: an epoch writes a log of its changes, snapshots come later; false: each epoch writes a snapshot",
        flink=("state.changelog.enabled", "state.backend.changelog.enabled"),
    )
    parallelism: int | None = _setting(
        "parallelism",
        optional(COUNT_FROM_1),
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
        number_between(1.0, math.inf, "a number of 1 or more"),
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
        number_between(0.0, 1.0, "a number from 0 to 1"),
        "0.1",
        "the part of the pause by which it varies at random",
        flink=("restart-strategy.exponential-delay.jitter-factor",),
    )
    restart_exponential_attempts: int | None = _setting(
        "restart.exponential.attempts",
        optional(COUNT_FROM_1),
        "",
        "restarts without a reset of the pause before the job fails for good; not set: no limit",
        flink=("restart-strategy.exponential-delay.attempts-before-reset-backoff",),
    )
    origins: Mapping[str, Origin] = field(default_factory=dict[str, Origin])
    """By name of a setting, who set it; what is not in here has its default."""

    @classmethod
    def load(
        cls,
        code: Mapping[str, object],
        environment: Mapping[str, str],
        overrides: Sequence[str] = (),
        *,
        file: SettingsFile | None = None,
        job: str = "",
    ) -> Settings:
        """Read all places. `overrides` are texts `key=value`; of two for one setting the later wins.

        Raises one error that lists every unknown name (SETTING_UNKNOWN), every bad value (SETTING_VALUE) and every
        rule between settings that is broken (SETTINGS_CLASH).
        """
        values: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        unread: set[str] = set()
        errors: list[TidegateError] = []
        for given in everything_given(code, file, job, environment, overrides):
            try:
                if _is_checkpoints_in_files(given):
                    continue
                attribute, value = _read(given, origins)
            except _Unread as refused:
                errors.append(refused.error)
                unread.update(refused.attributes)
            else:
                values[attribute] = value
        settings = cls(**values, origins=origins)
        raise_all([*errors, *violations(settings, unread)], "the settings of the job")
        return settings

    def is_set(self, attribute: str) -> bool:
        """Whether somebody has set it, be it to its default."""
        return SETTINGS[attribute].name in self.origins

    @property
    def max_concurrent(self) -> int:
        """`checkpointing_max_concurrent` as it acts: a pause between two epochs makes it 1, as in Flink (docs/dev/
        datastream/fault-tolerance/checkpointing, minimum time between checkpoints)."""
        return 1 if self.checkpointing_min_pause > 0 else self.checkpointing_max_concurrent

    def describe(self) -> list[Row]:
        """Every setting in the order of the table, as it may be shown."""
        return [
            Row(
                attribute=attribute,
                name=setting.name,
                value=shown(setting.kind.write(getattr(self, attribute))),
                origin=str(self.origins.get(setting.name, "default")),
                meaning=setting.meaning,
            )
            for attribute, setting in SETTINGS.items()
        ]

    def notes(self) -> list[str]:
        """What has to be said of these settings together, one sentence each."""
        return notes(self)


SETTINGS: Mapping[str, Setting[Any]] = {
    each.name: each.metadata[_ENTRY] for each in fields(Settings) if _ENTRY in each.metadata
}
"""The table: every setting there is, by its attribute."""

# --- reading one value -------------------------------------------------------------------------------------


_BARE_NUMBER = re.compile(r"\d*[1-9]\d*(\.\d+)?|0\.\d*[1-9]\d*")


def _folded(name: str) -> str:
    """A name with everything made equal that counts as equal."""
    return re.sub(r"[.-]", "_", name.strip().lower())


_ATTRIBUTES: dict[str, str] = {
    _folded(name): attribute for attribute, setting in SETTINGS.items() for name in (setting.name, *setting.flink)
}

_FROM_SAVEPOINT = "name the savepoint for the one start that is to go on from it: tidegate run -s PATH"

_ANSWERS_TO_FLINK = {
    "execution.state-recovery.path": _FROM_SAVEPOINT,
    "execution.savepoint.path": _FROM_SAVEPOINT,
    "execution.state-recovery.ignore-unclaimed-state": "tidegate run -s PATH --allow-non-restored-state",
    "execution.savepoint.ignore-unclaimed-state": "tidegate run -s PATH --allow-non-restored-state",
    "execution.state-recovery.claim-mode": "tidegate run -s PATH --claim; without it a savepoint is only read",
    "execution.savepoint-restore-mode": "tidegate run -s PATH --claim; without it a savepoint is only read",
    "execution.checkpointing.create-subdir": "leave it out: a job always has a folder of its own in checkpointing.dir",
    "execution.checkpointing.unaligned.forced": "leave it out: a job has no loops",
    "execution.checkpointing.interval-during-backlog": "leave it out: with a backlog epochs are sized to the interval",
    "state.backend.local-recovery": "leave it out: state is restored from checkpointing.dir",
    "execution.state-recovery.from-local": "leave it out: state is restored from checkpointing.dir",
    "pipeline.max-parallelism": "leave it out: parallelism itself is fixed by the first epoch",
}
"""Flink's keys that have no setting here, and what to do."""

_STORAGES_OF_FLINK = {"execution_checkpointing_storage", "state_checkpoint_storage"}
"""Flink's keys for the place of checkpoints, folded. Checkpoints are always files here: `filesystem` sets nothing."""


class _Unread(Exception):
    """A value that was refused, and the settings that it was for."""

    def __init__(self, error: TidegateError, *attributes: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.attributes = attributes


def _read(given: Given, origins: dict[str, Origin]) -> tuple[str, object]:
    """The attribute that is set, and its value; `origins` hears of it."""
    attribute = _ATTRIBUTES.get(_folded(given.key))
    if attribute is None:
        raise _Unread(_unknown(given))
    setting = SETTINGS[attribute]
    before = origins.get(setting.name)
    if before is not None and before.place is given.origin.place is not Place.OVERRIDE:
        raise _Unread(_given_twice(setting, before, given.origin), attribute)
    origins[setting.name] = given.origin
    try:
        return attribute, _value(setting, given)
    except TidegateError as error:
        raise _Unread(error, attribute) from None


def _value(setting: Setting[Any], given: Given) -> object:
    raw = given.value
    if isinstance(raw, Missing):
        raise _bad_value(setting, given.origin, raw.value)
    if setting.kind.unit_of_flink and _folded(given.key) != _folded(setting.name) and _BARE_NUMBER.fullmatch(str(raw)):
        counted = f"{raw}: a bare number, which Flink counts in {setting.kind.unit_of_flink}"
        raise _bad_value(setting, given.origin, counted, "write the unit")
    try:
        return setting.kind.read(raw)
    except ValueError:
        raise _bad_value(setting, given.origin, shown(repr(raw))) from None


def _is_checkpoints_in_files(given: Given) -> bool:
    """Whether Flink's key asks for checkpoints in files, which is always so. Raises for any other storage."""
    if _folded(given.key) not in _STORAGES_OF_FLINK:
        return False
    if given.value == "filesystem":
        return True
    raise _Unread(
        TidegateError(
            Code.SETTING_VALUE,
            expected=f"{given.key} = filesystem: checkpoints are always files, below checkpointing.dir",
            found=shown(repr(given.value)),
            where=str(given.origin),
            next_step="leave it out: checkpoints in the memory of a process (jobmanager) have no counterpart here",
        )
    )


def _unknown(given: Given) -> TidegateError:
    answers = {_folded(key): answer for key, answer in _ANSWERS_TO_FLINK.items()}
    near = get_close_matches(_folded(given.key), _ATTRIBUTES, n=1)
    meant = f"did you mean {SETTINGS[_ATTRIBUTES[near[0]]].name}?" if near else f"leave it out, or take {_LISTED}"
    return TidegateError(
        Code.SETTING_UNKNOWN,
        expected=_LISTED,
        found=given.key,
        where=str(given.origin),
        next_step=answers.get(_folded(given.key), meant),
    )


_LISTED = "one of the settings that `tidegate config show` lists"


def _bad_value(setting: Setting[Any], origin: Origin, found: str, next_step: str = "") -> TidegateError:
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"{setting.name} = {setting.kind.expected}",
        found=found,
        where=str(origin),
        next_step=next_step or f"give {origin.name} such a value there, or leave it out: see docs/settings.md",
    )


def _given_twice(setting: Setting[Any], first: Origin, second: Origin) -> TidegateError:
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"one value for {setting.name} in one place",
        found=f"{first.name} and {second.name}",
        where=str(second),
        next_step="leave one of them out",
    )
