"""A campaign's report in words and as JSON."""

from __future__ import annotations

from typing import Any

from tests.campaign.ending import failure_lines, figures_at_the_end, finding_words, time_words
from tests.campaign.footprint import Phase
from tests.campaign_kafka.run import Report


def as_json(report: Report) -> dict[str, Any]:
    """All figures and the whole history."""
    return {
        "ok": not report.flaws,
        "seed": report.options.seed,
        "brokers": report.options.brokers,
        "kills": report.kills,
        "strikes": len(report.history),
        "planned": report.planned,
        "kills_by_target": dict(report.count(lambda entry: entry.victim, killed=True)),
        "pauses_by_target": dict(report.count(lambda entry: entry.victim, killed=False)),
        "kills_by_phase": dict(report.count(lambda entry: entry.phase, killed=True)),
        "pauses_by_phase": dict(report.count(lambda entry: entry.phase, killed=False)),
        "input": report.input,
        "compared": report.compared,
        "found": report.found,
        "open_transactions": report.open,
        "epochs": report.epochs,
        "drivers": report.drivers,
        "aborted": report.aborted,
        "redone": report.redone,
        "started_again": report.started_again,
        "minutes": round(report.seconds / 60, 1),
        **figures_at_the_end(report, report.history),
    }


def as_text(report: Report) -> str:
    """The tables and, when something is wrong, how to repeat it."""
    parts = [_targets(report), _phases(report), summary(report)]
    history = [f"  {entry.number:3} {entry.phase} {entry.step}" for entry in report.history]
    return "\n".join([*parts, *failure_lines(report, history)])


def summary(report: Report) -> str:
    """How much was struck and compared, what was found, and how long it took."""
    again = ", ".join(f"{code} {count}" for code, count in report.started_again.items()) or "never"
    still_open = "not asked" if report.open is None else str(report.open)
    return "\n".join(
        [
            f"seed {report.options.seed}, brokers {report.options.brokers}: {report.kills} kills and"
            f" {len(report.history) - report.kills} pauses of {report.planned} planned strikes,"
            f" {report.drivers} drivers, {report.epochs} epochs",
            f"{report.input} records of input, {report.compared} records of output compared: {finding_words(report)}",
            f"{report.aborted} transactions aborted, {report.redone} written again;"
            f" job ended without its brokers and started again: {again}",
            f"open transactions by Kafka's own tool: {still_open}",
            f"{report.seconds / 60:.1f} minutes ({time_words(report)})",
        ]
    )


def _targets(report: Report) -> str:
    killed = report.count(lambda entry: entry.victim, killed=True)
    paused = report.count(lambda entry: entry.victim, killed=False)
    rows = [f"{victim:27}{killed[victim]:6}{paused[victim]:8}" for victim in sorted({*killed, *paused})]
    return "\n".join([f"{'target':27}{'kills':>6}{'pauses':>8}", *rows, ""])


def _phases(report: Report) -> str:
    killed = report.count(lambda entry: entry.phase, killed=True)
    paused = report.count(lambda entry: entry.phase, killed=False)
    rows = [f"{each.name}  {each.value:24}{killed[each.name]:6}{paused[each.name]:8}" for each in Phase]
    return "\n".join([f"{'phase':27}{'kills':>6}{'pauses':>8}", *rows, ""])
