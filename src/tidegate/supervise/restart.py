"""Restart strategies of Flink, as pure functions of the failures so far.

The rules, their parameters and defaults are those of Flink's page "Task Failure Recovery"
(docs/ops/state/task_failure_recovery). `ExponentialDelayRestartBackoffTimeStrategy` and
`FailureRateRestartBackoffTimeStrategy` of flink-runtime give the details that the page leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from tidegate.settings import config
from tidegate.settings.config import Settings


class Restarted(msgspec.Struct, frozen=True, kw_only=True):
    """A failure after which the job was restarted: its time, and the pause before the restart. In seconds."""

    at: float
    pause: float


class NoRestart(msgspec.Struct, frozen=True, tag="none"):
    """The first failure is the last."""

    def pause_after(self, past: Sequence[Restarted], at: float, chance: float) -> float | None:
        """None: no restart. For every strategy: `past` in the order of time, `chance` from 0 to 1."""
        return None

    def __str__(self) -> str:
        return "none"


class FixedDelay(msgspec.Struct, frozen=True, tag="fixed-delay"):
    """A restart strategy: a fixed total number of restarts, each after the same pause."""

    attempts: int
    delay: float

    def pause_after(self, past: Sequence[Restarted], at: float, chance: float) -> float | None:
        """The pause before the next start, in seconds; None: no restart."""
        return self.delay if len(past) < self.attempts else None

    def __str__(self) -> str:
        return f"fixed-delay, {self.attempts} attempts"


class FailureRate(msgspec.Struct, frozen=True, tag="failure-rate"):
    """A maximum number of failures within any interval; one more failure ends the job."""

    max_failures: int
    interval: float
    delay: float

    def pause_after(self, past: Sequence[Restarted], at: float, chance: float) -> float | None:
        """The pause before the next start, in seconds; None: no restart."""
        if len(past) < self.max_failures or at - past[-self.max_failures].at > self.interval:
            return self.delay
        return None

    def __str__(self) -> str:
        return f"failure-rate, {self.max_failures} failures within {self.interval:g} s"


class ExponentialDelay(msgspec.Struct, frozen=True, tag="exponential-delay"):
    """Pauses that grow up to a maximum and vary at random by a part of themselves. After a time without a failure the
    first pause applies again.

    A failure during a pause belongs to the failure before it: several queries may fail for one reason.
    """

    initial: float
    maximum: float
    multiplier: float
    reset: float
    jitter: float
    attempts: int | None = None

    def pause_after(self, past: Sequence[Restarted], at: float, chance: float) -> float | None:
        """The pause before the next start, in seconds; None: no restart."""
        done, restart_at = self._since_reset(past)
        if at < restart_at:
            return min(restart_at - at, self.maximum)  # for late times the difference is rounded
        if at - restart_at >= self.reset:
            done = 0
        if self.attempts is not None and done >= self.attempts:
            return None
        pause = self._grown(done)
        return min(pause + pause * self.jitter * (2 * chance - 1), self.maximum)

    def _since_reset(self, past: Sequence[Restarted]) -> tuple[int, float]:
        """The number of restarts since the pause was reset, and the planned time of the newest restart."""
        done, restart_at = 0, -math.inf
        for each in past:
            if each.at < restart_at:
                continue
            done = 1 if each.at - restart_at >= self.reset else done + 1
            restart_at = each.at + each.pause
        return done, restart_at

    def _grown(self, times: int) -> float:
        """The pause without jitter, in seconds: `initial * multiplier ** times`, but at most `maximum`.

        `times`: the restarts since the pause was reset. Computed with logarithms, because the power itself would
        overflow after many restarts.
        """
        if self.initial == 0:
            return 0.0
        room = math.log(self.maximum / self.initial) if self.maximum > self.initial else 0.0
        grown = times * math.log(self.multiplier)
        return self.maximum if grown >= room else self.initial * math.exp(grown)

    def __str__(self) -> str:
        bound = "" if self.attempts is None else f", {self.attempts} attempts"
        return f"exponential-delay{bound}"


RestartPolicy: TypeAlias = NoRestart | FixedDelay | FailureRate | ExponentialDelay


def strategy_of(settings: Settings) -> RestartPolicy:
    """The strategy of the settings, with its parameters."""
    match settings.restart_strategy:
        case config.RestartStrategy.NONE:
            return NoRestart()
        case config.RestartStrategy.FIXED_DELAY:
            return FixedDelay(settings.restart_fixed_delay_attempts, settings.restart_fixed_delay_delay)
        case config.RestartStrategy.FAILURE_RATE:
            return FailureRate(
                settings.restart_failure_rate_max_failures,
                settings.restart_failure_rate_interval,
                settings.restart_failure_rate_delay,
            )
        case config.RestartStrategy.EXPONENTIAL_DELAY:
            return ExponentialDelay(
                initial=settings.restart_exponential_initial,
                maximum=settings.restart_exponential_max,
                multiplier=settings.restart_exponential_multiplier,
                reset=settings.restart_exponential_reset,
                jitter=settings.restart_exponential_jitter,
                attempts=settings.restart_exponential_attempts,
            )
