"""The settings of a job: one table. `reading` lists the places that may set them; `rules` has the rules between
them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic

from tidegate.core.levels import Level
from tidegate.settings.given import Origin, shown
from tidegate.settings.kinds import (
    BACKEND,
    COUNT_FROM_0,
    COUNT_FROM_1,
    DURATION,
    FLAG,
    FOLDER,
    LEVEL,
    LOCAL_FOLDER,
    RETENTION,
    STRATEGY,
    WARM_UP,
    Backend,
    RestartStrategy,
    Retention,
    SettingKind,
    ValueT,
    WarmUp,
    number_between,
    optional,
)
from tidegate.settings.page_kinds import FOLDERS, HOST, ORIGIN, PORT
from tidegate.storages.lease import LEASE_TIMEOUT_SECONDS


@dataclass(frozen=True, slots=True)
class Setting(Generic[ValueT]):
    """One setting: its name, kind, default (as a user would write it), meaning, and Flink's keys for it."""

    name: str
    kind: SettingKind[ValueT]
    default: str
    meaning: str
    flink: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as it is shown: its value as text (empty: not set), and the place that set it."""

    attribute: str
    name: str
    value: str
    origin: str
    meaning: str


# --- the settings ------------------------------------------------------------------------------------------


def _setting(name: str, kind: SettingKind[ValueT], default: str, meaning: str, flink: tuple[str, ...] = ()) -> ValueT:
    entry = Setting(name, kind, default, meaning, flink)
    return field(default=kind.read(default), metadata={_ENTRY: entry})


_ENTRY = "setting"
_BACKLOG_SECONDS = 5.0
"""An epoch of this duration spends a tenth or less of it on what does not depend on its rows."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The value of every setting, and its origin; each attribute is an entry of the table."""

    checkpointing_dir: str = _setting(
        "checkpointing.dir",
        FOLDER,
        "./.tidegate",
        "folder for all durable files of jobs: each job has a folder with its name, so that a program can resume",
        flink=("execution.checkpointing.dir", "state.checkpoints.dir"),
    )
    checkpointing_interval: float = _setting(
        "checkpointing.interval",
        DURATION,
        "10s",
        "least time between the starts of two epochs; 0: as fast as possible",
        flink=("execution.checkpointing.interval",),
    )
    checkpointing_backlog_interval: float | None = _setting(
        "checkpointing.backlog_interval",
        optional(DURATION),
        "",
        "the duration that an epoch aims at while a source has a backlog. Not set: the larger of "
        "checkpointing.interval and 5s. 0: no aim, an epoch takes all that is there",
        flink=("execution.checkpointing.interval-during-backlog",),
    )
    checkpointing_mode: Level = _setting(
        "checkpointing.mode",
        LEVEL,
        "exactly-once",
        "the guarantee of every sink without a `delivery` of its own: exactly-once, at-least-once or at-most-once",
        flink=("execution.checkpointing.mode",),
    )
    savepoints_dir: str | None = _setting(
        "savepoints.dir",
        optional(FOLDER),
        "",
        "folder for savepoints, unless a command names another one; if it is set, `tidegate stop` takes a savepoint",
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
        "whether checkpoints are kept when the job is cancelled; a failed job always keeps them",
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
        "lease.timeout",
        DURATION,
        f"{LEASE_TIMEOUT_SECONDS:g}s",
        "how long a start waits for the JVM of a driver that has died; on a storage without locks: how long a driver"
        " must give no sign of life before another one takes over",
    )
    progress_timeout: float = _setting(
        "progress_timeout",
        DURATION,
        "10min",
        "time without progress after which the supervisor kills a driver; 0: never",
    )
    warm_up: WarmUp = _setting(
        "warm_up",
        WARM_UP,
        "background",
        "tidegate run: makes the archive of `tidegate warm-up` once, while a job runs; off: only the command makes it",
    )
    restart_strategy: RestartStrategy = _setting(
        "restart.strategy",
        STRATEGY,
        "exponential-delay",
        "how a failed job is started again",
        flink=("restart-strategy.type", "restart-strategy"),
    )
    restart_standby: bool = _setting(
        "restart.standby",
        FLAG,
        "false",
        "tidegate run: holds a second driver ready, which takes over when the first one dies",
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
        "the factor by which the pause grows after each failure",
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
    ui_host: str = _setting(
        "ui.host", HOST, "127.0.0.1", "the page's address; one that other machines reach needs TLS or ui.proxy"
    )
    ui_port: int = _setting("ui.port", PORT, "8081", "the page's port; 0: any free one, which is shown")
    ui_token_file: str | None = _setting(
        "ui.token_file",
        optional(LOCAL_FOLDER),
        "",
        "a file with the token of the page; not set: a new one at each start",
    )
    ui_tls_cert: str | None = _setting(
        "ui.tls_cert", optional(LOCAL_FOLDER), "", "the page's certificate and those above it, in PEM: it has TLS then"
    )
    ui_tls_key: str | None = _setting(
        "ui.tls_key",
        optional(LOCAL_FOLDER),
        "",
        "the private key of ui.tls_cert, in PEM; not set: it is in the same file",
    )
    ui_proxy: str | None = _setting(
        "ui.proxy", optional(ORIGIN), "", "the origin at which a proxy with TLS shows the page to browsers"
    )
    ui_programs: tuple[str, ...] = _setting(
        "ui.programs", FOLDERS, "", "folders whose programs the page may start; not set: it starts none"
    )
    origins: Mapping[str, Origin] = field(default_factory=dict[str, Origin])
    """The origin of each value, by the name of the setting. A setting without an entry has its default value."""

    def is_set(self, attribute: str) -> bool:
        """True if a program, command, file or environment has set this setting, even to its default value."""
        return SETTINGS[attribute].name in self.origins

    @property
    def backlog_interval(self) -> float:
        """The duration that an epoch aims at while a source has a backlog, in seconds; 0: no aim."""
        wanted = self.checkpointing_backlog_interval
        return max(self.checkpointing_interval, _BACKLOG_SECONDS) if wanted is None else wanted

    @property
    def max_concurrent(self) -> int:
        """The number of decided epochs that may be uncommitted at the same time: `checkpointing_max_concurrent`.

        It is 1 if `checkpointing_min_pause` is more than 0, as in Flink: see Flink's documentation,
        docs/dev/datastream/fault-tolerance/checkpointing, "minimum time between checkpoints".
        """
        return 1 if self.checkpointing_min_pause > 0 else self.checkpointing_max_concurrent

    def describe(self) -> list[SettingRow]:
        """A row for each setting, in the order of `SETTINGS`. Names and passwords in URLs are hidden."""
        return [
            SettingRow(
                attribute=attribute,
                name=setting.name,
                value=shown(setting.kind.write(getattr(self, attribute))),
                origin=str(self.origins.get(setting.name, "default")),
                meaning=setting.meaning,
            )
            for attribute, setting in SETTINGS.items()
        ]


SETTINGS: Mapping[str, Setting[Any]] = {
    each.name: each.metadata[_ENTRY] for each in fields(Settings) if _ENTRY in each.metadata
}
"""The table of all settings, by attribute."""
