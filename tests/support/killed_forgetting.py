"""`tidegate forget`, killed before any of its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.disk import durable
from tidegate.sinks.base import TwoPhaseSink
from tidegate.storages.local.storage import LocalStorage


class Killed(BaseException):
    """The process ends here."""


def kill_before(patched: pytest.MonkeyPatch, fatal: int, *sinks: type[TwoPhaseSink]) -> list[str]:
    """Kill before the step of this number: a record, a sink of these kinds, a folder. The steps that were reached."""
    passed: list[str] = []

    def before(owner: Any, name: str) -> None:
        step: Callable[..., Any] = getattr(owner, name)

        def stepped(*given: Any, **named: Any) -> Any:
            passed.append(name)
            if len(passed) == fatal + 1:
                raise Killed
            return step(*given, **named)

        patched.setattr(owner, name, stepped)

    for owner, name in (
        (LocalStorage, "put_if_absent"),
        (LocalStorage, "delete"),
        *((sink, name) for sink in sinks for name in ("discard", "forget")),
        (LocalStorage, "clear"),
        (durable.shutil, "rmtree"),
    ):
        before(owner, name)
    return passed
