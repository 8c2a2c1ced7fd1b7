"""What each campaign does at its end: keep what went wrong, say it, and how to see it again."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.campaign.drivers import CampaignFailed


class Repeatable(Protocol):
    """What the user chose: `folder` holds everything of the campaign, `command` repeats it."""

    @property
    def folder(self) -> Path: ...

    @property
    def command(self) -> str: ...


class Ended(Protocol):
    """The report of a campaign; without `flaws` nothing is wrong."""

    flaws: list[str]
    found: dict[str, int]
    seconds: float
    seconds_in: dict[str, float]

    @property
    def options(self) -> Repeatable: ...


@contextmanager
def flaws_kept(report: Ended, *also: type[Exception]) -> Generator[float]:
    """Keeps what ends the campaign early, and how long it took. Gives the time of its begin (`time.monotonic`).

    `also`: errors beside CampaignFailed that are flaws of what is under test.
    """
    begun = time.monotonic()
    try:
        yield begun
    except (CampaignFailed, *also) as failed:
        report.flaws.append(str(failed))
    except KeyboardInterrupt:
        report.flaws.append("interrupted")
    report.seconds = time.monotonic() - begun


def finding_words(report: Ended) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in report.found.items()) or "nothing compared"


def time_words(report: Ended) -> str:
    return ", ".join(f"{what} {seconds:.0f} s" for what, seconds in sorted(report.seconds_in.items()))


def failure_lines(report: Ended, history: Iterable[str]) -> list[str]:
    """What is wrong, what came before it, and how to repeat it; nothing where nothing is wrong."""
    if not report.flaws:
        return []
    repeat = [f"repeat it: {report.options.command}", f"kept: {report.options.folder}"]
    return ["FAILED", *report.flaws, "what came before:", *history, *repeat]


def figures_at_the_end(report: Ended, history: Sequence[object]) -> dict[str, Any]:
    """The last figures of each campaign as JSON; `history`: entries that are dataclasses with slots."""
    return {
        "seconds_in": {what: round(seconds, 1) for what, seconds in report.seconds_in.items()},
        "command": report.options.command,
        "flaws": report.flaws,
        "history": [{name: getattr(entry, name) for name in type(entry).__slots__} for entry in history],  # pyright: ignore[reportAttributeAccessIssue]
    }


def closed(report: Ended, said: str | dict[str, Any]) -> int:
    """Print the report, remove the folder where nothing is wrong; the exit code."""
    print(said if isinstance(said, str) else json.dumps(said, indent=1))
    if not report.flaws:
        shutil.rmtree(report.options.folder)
    return 1 if report.flaws else 0
