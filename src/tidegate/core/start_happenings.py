"""What a start tells before its job has listeners: a supervisor hears of it, and sees that the start moves."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.effects import Happening


@dataclass(frozen=True, slots=True)
class RestoreMoved(Happening):
    """A restore has got as far as this: a file is copied, state is rewritten, counted or compared."""

    step: str

    def __str__(self) -> str:
        return self.step
