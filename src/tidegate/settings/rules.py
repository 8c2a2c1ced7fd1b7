"""Rules between settings: a table. All refusals come in one error; notes are logged at the start."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.settings.config import Settings
from tidegate.settings.kinds import Backend, RestartStrategy


class RuleVerdict(Enum):
    """The effect of a rule on the settings."""

    REFUSED = "refused"
    SAID = "logged at the start"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about the settings in `about` (attributes). If `applies` is true, `text` gives the rule and the next
    step."""

    verdict: RuleVerdict
    about: tuple[str, ...]
    applies: Callable[[Settings], bool]
    text: str
    next_step: str = ""


def violations(settings: Settings, unread: Collection[str]) -> list[TidegateError]:
    """The refusals of all rules for these settings. Rules about an attribute of `unread` are skipped: its value is
    unknown."""
    return [
        TidegateError(
            Code.SETTINGS_CLASH,
            expected=rule.text,
            found=_found(rule, settings),
            where=_where(rule, settings),
            next_step=rule.next_step,
        )
        for rule in RULES
        if rule.verdict is RuleVerdict.REFUSED and not set(rule.about) & set(unread) and rule.applies(settings)
    ]


def notes(settings: Settings) -> list[str]:
    """The notes on these settings, one sentence each, with the values."""
    said = [rule for rule in RULES if rule.verdict is RuleVerdict.SAID and rule.applies(settings)]
    return [f"{rule.text} ({_found(rule, settings)})" for rule in said]


def _found(rule: Rule, settings: Settings) -> str:
    return ", ".join(f"{row.name} = {row.value}" for row in settings.describe() if row.attribute in rule.about)


def _where(rule: Rule, settings: Settings) -> str:
    rows = [row for row in settings.describe() if row.attribute in rule.about]
    return ", ".join(f"{row.name} from {row.origin}" for row in rows)


_LEAST_TIMEOUT_SECONDS = 0.01
"""As in Flink (CheckpointConfig.MINIMAL_CHECKPOINT_TIME)."""


_PARAMETERS = {
    RestartStrategy.FIXED_DELAY: ("fixed_delay", ("attempts", "delay")),
    RestartStrategy.FAILURE_RATE: ("failure_rate", ("max_failures", "interval", "delay")),
    RestartStrategy.EXPONENTIAL_DELAY: ("exponential", ("initial", "max", "multiplier", "reset", "jitter", "attempts")),
}


def _acts_only_with(strategy: RestartStrategy, family: str, parameter: str) -> Rule:
    attribute = f"restart_{family}_{parameter}"
    return Rule(
        RuleVerdict.SAID,
        ("restart_strategy", attribute),
        lambda settings: settings.restart_strategy is not strategy and settings.is_set(attribute),
        f"restart.{family}.* acts only with restart.strategy = {strategy.value}",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        RuleVerdict.REFUSED,
        ("checkpointing_unaligned", "checkpointing_mode"),
        lambda s: s.checkpointing_unaligned and s.checkpointing_mode is not Level.EXACTLY_ONCE,
        "checkpointing.unaligned only with checkpointing.mode = exactly-once",
        "leave checkpointing.unaligned out, or choose exactly-once",
    ),
    Rule(
        RuleVerdict.REFUSED,
        ("checkpointing_unaligned", "checkpointing_max_concurrent"),
        lambda s: s.checkpointing_unaligned and s.checkpointing_max_concurrent > 1,
        "checkpointing.unaligned only with checkpointing.max_concurrent = 1",
        "leave one of them out",
    ),
    Rule(
        RuleVerdict.REFUSED,
        ("checkpointing_aligned_timeout", "checkpointing_unaligned"),
        lambda s: s.checkpointing_aligned_timeout > 0 and not s.checkpointing_unaligned,
        "checkpointing.aligned_timeout only with checkpointing.unaligned = true",
        "set checkpointing.unaligned = true, or leave checkpointing.aligned_timeout out",
    ),
    Rule(
        RuleVerdict.REFUSED,
        ("checkpointing_timeout",),
        lambda s: s.checkpointing_timeout < _LEAST_TIMEOUT_SECONDS,
        "checkpointing.timeout of at least 10ms: every epoch would be cancelled",
        "give epochs time to be prepared",
    ),
    Rule(
        RuleVerdict.REFUSED,
        ("state_backend", "state_changelog"),
        lambda s: s.state_backend is Backend.HASHMAP and not s.state_changelog,
        "state.changelog = true with state.backend = hashmap, which always writes what has changed",
        "leave state.changelog out, or choose rocksdb",
    ),
    Rule(
        RuleVerdict.REFUSED,
        ("state_backend", "state_incremental"),
        lambda s: s.state_backend is Backend.HASHMAP and not s.state_incremental,
        "state.incremental = true with state.backend = hashmap, which always writes what has changed",
        "leave state.incremental out, or choose rocksdb",
    ),
    Rule(
        RuleVerdict.REFUSED,
        ("restart_strategy", "restart_exponential_initial", "restart_exponential_max"),
        lambda s: (
            s.restart_strategy is RestartStrategy.EXPONENTIAL_DELAY
            and s.restart_exponential_initial > s.restart_exponential_max
        ),
        "restart.exponential.initial of at most restart.exponential.max",
        "raise the one or lower the other",
    ),
    Rule(
        RuleVerdict.REFUSED,
        ("restart_standby", "checkpointing_mode"),
        lambda s: s.restart_standby and s.checkpointing_mode is Level.AT_MOST_ONCE,
        "restart.standby only with checkpointing.mode = exactly-once or at-least-once",
        "leave restart.standby out, or choose another level",
    ),
    Rule(
        RuleVerdict.REFUSED,
        ("checkpointing_backlog_interval", "checkpointing_interval"),
        lambda s: 0 < s.backlog_interval < s.checkpointing_interval,
        "checkpointing.backlog_interval of at least checkpointing.interval, or 0, as in Flink: with a backlog epochs "
        "become longer, not shorter",
        "raise checkpointing.backlog_interval, lower checkpointing.interval, or leave the first one out",
    ),
    Rule(
        RuleVerdict.SAID,
        ("checkpointing_interval", "checkpointing_backlog_interval", "checkpointing_timeout"),
        lambda s: s.backlog_interval > s.checkpointing_timeout,
        "with a backlog an epoch may take as long as checkpointing.backlog_interval, and is cancelled at "
        "checkpointing.timeout",
    ),
    Rule(
        RuleVerdict.SAID,
        ("checkpointing_min_pause", "checkpointing_max_concurrent"),
        lambda s: s.max_concurrent < s.checkpointing_max_concurrent,
        "checkpointing.max_concurrent is 1 where checkpointing.min_pause is above 0, as in Flink: the pause begins "
        "when an epoch is committed",
    ),
    Rule(
        RuleVerdict.SAID,
        ("checkpointing_unaligned", "checkpointing_aligned_timeout"),
        lambda s: s.checkpointing_unaligned,
        "checkpointing.unaligned and aligned_timeout act on jobs of several queries joined by channels",
    ),
    Rule(
        RuleVerdict.SAID,
        ("checkpointing_aligned_timeout", "checkpointing_timeout"),
        lambda s: s.checkpointing_aligned_timeout >= s.checkpointing_timeout,
        "with a checkpointing.aligned_timeout of at least checkpointing.timeout a checkpoint is aborted before its "
        "barriers overtake rows",
    ),
    Rule(
        RuleVerdict.SAID,
        ("state_backend",),
        lambda s: s.state_backend is Backend.HASHMAP,
        "hashmap keeps state in the JVM's heap and names no state files in its checkpoint: no transformWithState, and "
        "a query whose state is random or depends on time needs rocksdb",
    ),
    Rule(
        RuleVerdict.SAID,
        ("checkpointing_tolerable_failures", "state_backend"),
        lambda s: s.checkpointing_tolerable_failures > 0 and s.state_backend is Backend.HASHMAP,
        "with hashmap a failed epoch is tolerated by a new start of the program, which only `tidegate run` makes: in a "
        "program that runs alone the first one ends the job",
    ),
    Rule(
        RuleVerdict.SAID,
        ("checkpointing_tolerable_failures", "checkpointing_mode"),
        lambda s: s.checkpointing_tolerable_failures > 0 and s.checkpointing_mode is Level.AT_MOST_ONCE,
        "at at-most-once a failed epoch is tolerated by a new start of the program, with empty state and at the newest "
        "input. Only `tidegate run` makes it: in a program that runs alone the first one ends the job",
    ),
    *(
        _acts_only_with(strategy, family, parameter)
        for strategy, (family, parameters) in _PARAMETERS.items()
        for parameter in parameters
    ),
)
