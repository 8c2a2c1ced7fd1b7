"""A campaign's report in words and as JSON."""

from __future__ import annotations

from typing import Any

from tests.campaign.ending import failure_lines, figures_at_the_end, finding_words, time_words
from tests.campaign.footprint import Phase
from tests.campaign.left_over import left_over_words
from tests.campaign.run import Report
from tests.campaign.situations import actions_at


def as_json(report: Report) -> dict[str, Any]:
    """All figures and the whole history."""
    return {
        "ok": not report.flaws,
        "level": report.options.level.value,
        "seed": report.options.seed,
        "kills": report.kills,
        "strikes": len(report.history),
        "planned": report.planned,
        "kills_by_phase": dict(report.count(lambda entry: entry.phase, killed=True)),
        "kills_by_target": dict(report.count(lambda entry: entry.target, killed=True)),
        "others_by_phase": dict(report.count(lambda entry: entry.phase, killed=False)),
        "others_by_target": dict(report.count(lambda entry: entry.target, killed=False)),
        "failpoints": {place: dict(row) for place, row in _by_place(report).items()},
        "never_hit": report.never_hit(),
        "records": report.records,
        "epochs": report.epochs,
        "drivers": report.drivers,
        "aborted": report.aborted,
        "redone": report.redone,
        **report.found,
        "left_over": dict(report.left),
        "seconds": round(report.seconds, 1),
        **figures_at_the_end(report, report.history),
    }


def as_text(report: Report) -> str:
    """The tables and, when something is wrong, how to repeat it."""
    parts = [_phases(report), _targets(report), _failpoints(report), summary(report)]
    history = [f"  {entry.number:3} epoch {entry.epoch:4} {entry.phase} {entry.step}" for entry in report.history]
    return "\n".join([*parts, *failure_lines(report, history)])


def _phases(report: Report) -> str:
    killed = report.count(lambda entry: entry.phase, killed=True)
    others = report.count(lambda entry: entry.phase, killed=False)
    rows = [f"{each.name}  {each.value:24}{killed[each.name]:6}{others[each.name]:8}" for each in Phase]
    return "\n".join([f"{'phase':27}{'kills':>6}{'others':>8}", *rows, ""])


def _targets(report: Report) -> str:
    counted = report.count(lambda entry: f"{entry.target} killed", killed=True)
    counted += report.count(lambda entry: entry.target, killed=False)
    rows = [f"{target:27}{count:6}" for target, count in sorted(counted.items())]
    return "\n".join([f"{'target':27}{'strikes':>6}", *rows, ""])


def _failpoints(report: Report) -> str:
    lines = [f"{'failpoint':27}{'passed by':>10}  struck"]
    struck = _by_place(report)
    for place in report.options.places():
        actions = [f"{action.value} {struck.get(place, {}).get(action.value, 0)}" for action in actions_at(place)]
        lines.append(f"{place:27}{report.passed[place]:10}  {', '.join(actions)}")
    return "\n".join([*lines, ""])


def summary(report: Report) -> str:
    """How much was struck and compared, what was found, and how long it took."""
    per_kill = report.seconds / report.kills if report.kills else 0.0
    return "\n".join(
        [
            f"{report.options.level.value}, seed {report.options.seed}: {report.kills} kills and"
            f" {len(report.history) - report.kills} other strikes of {report.planned} planned,"
            f" {report.drivers} drivers, {report.epochs} epochs",
            f"{report.records} records compared: {finding_words(report)}; {report.aborted} aborted,"
            f" {report.redone} written again",
            *([f"left over: {left_over_words(report.left)}"] if report.left else []),
            f"{report.seconds / 60:.1f} minutes, {per_kill:.1f} s a kill, all in ({time_words(report)})",
        ]
    )


def _by_place(report: Report) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for entry in report.history:
        if entry.place is not None and entry.action is not None:
            row = found.setdefault(entry.place, {})
            row[entry.action] = row.get(entry.action, 0) + 1
    return found
