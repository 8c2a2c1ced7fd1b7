"""The folder of a file sink, on any storage: where its tasks stage, and what its driver does with the staged files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding
from tidegate.core.records import Answer, Committable, Evidence, Position, SinkIdentity
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.files.stage import FileStage


class Committer(Protocol):
    """Publishes prepared files of a sink, and finds out which of them were published. The methods are those of a
    `TwoPhaseSink`.
    """

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]: ...

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]: ...

    def evidence(self, committable: Committable) -> Evidence: ...


class TargetPlace(Protocol):
    """The folder of a file sink. It travels to the tasks, so it holds settings only."""

    @property
    def stage(self) -> FileStage: ...

    @property
    def committer(self) -> Committer: ...

    def violations(self, plan: SinkPlan, where: str) -> Iterable[TidegateError]:
        """All reasons of the storage against a start. Changes nothing."""
        ...

    def probed(self, what: str) -> Sequence[Finding]:
        """The condition of the folder, for `tidegate check`. Changes nothing."""
        ...

    def open(self, identity: SinkIdentity) -> None:
        """Create what is missing, and remove what killed claims of `identity` have left."""
        ...

    def position(self, identity: SinkIdentity) -> Position | None: ...

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        """What attempts have begun to stage, and what neither `clean` nor `discard` finds: names for `abort`."""
        ...

    def abort(self, transactions: Sequence[str]) -> None: ...

    def clean(self, identity: SinkIdentity, finished_through: int) -> None: ...

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int: ...

    def forget(self, identity: SinkIdentity) -> None: ...
