"""A campaign's report in words and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.campaign.ending import failure_lines, figures_at_the_end, finding_words, time_words
from tests.campaign_files.run import Report


def as_json(report: Report) -> dict[str, Any]:
    """All figures and the whole history."""
    return {
        "ok": not report.flaws,
        "seed": report.options.seed,
        "changed": report.options.changed,
        "kills": report.kills,
        "planned": report.planned,
        "kills_by_kind": dict(_kinds(report)),
        "acts": dict(report.acts),
        "refused": report.refused,
        "let_go": report.let_go,
        "not_judged": report.unjudged,
        "files": report.files,
        "records": report.records,
        "found": report.found,
        "epochs": report.epochs,
        "drivers": report.drivers,
        "seconds": round(report.seconds, 1),
        **figures_at_the_end(report, report.history),
    }


def as_text(report: Report) -> str:
    """The tables and, when something is wrong, how to repeat it."""
    parts = [
        _table("kills", _kinds(report)),
        _table("what happened to files", report.acts),
        _table("refusals, all of them true", report.refused),
        summary(report),
    ]
    history = [f"  {entry.number:3} {entry.step}: {', '.join(entry.acts)}" for entry in report.history]
    return "\n".join([*parts, *failure_lines(report, history)])


def summary(report: Report) -> str:
    """How much was struck and compared, what was found, and how long it took."""
    refused = sum(report.refused.values())
    return "\n".join(
        [
            f'seed {report.options.seed}, changed="{report.options.changed}": {report.kills} kills of {report.planned}'
            f" planned, {report.drivers} drivers, {report.epochs} epochs",
            f"{report.files} files, {report.let_go} let go by the job, {report.unjudged} not judged;"
            f" {report.records} rows compared: {finding_words(report)}; {refused} refusals",
            f"{report.seconds / 60:.1f} minutes ({time_words(report)})",
        ]
    )


_KINDS = {"At": "at a failpoint", "Kill": "behind a record", "Inside": "inside the source"}


def _kinds(report: Report) -> Counter[str]:
    counted: Counter[str] = Counter()
    for entry in report.history:
        counted[_KINDS[entry.kind]] += 1
        if entry.kills > 1:
            counted["in recovery"] += entry.kills - 1
    return counted


def _table(title: str, rows: dict[str, int]) -> str:
    return "\n".join([title, *(f"  {name:36}{count:6}" for name, count in sorted(rows.items())), ""])
