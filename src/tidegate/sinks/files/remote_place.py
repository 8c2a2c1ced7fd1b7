"""The folder of a file sink on a storage that is not a disk of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding, failed, ok
from tidegate.core.records import Position, SinkIdentity
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.files.names import HIDDEN
from tidegate.sinks.files.newest_done import NewestDone
from tidegate.sinks.files.remote_committer import RemoteCommitter
from tidegate.sinks.files.remote_stage import RemoteStage
from tidegate.sinks.marks import Marks
from tidegate.storages.check import check_storage
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """A folder of a storage. Every machine that reaches the storage may stage and publish there."""

    folder: Folder

    @property
    def stage(self) -> RemoteStage:
        return RemoteStage(self.folder)

    @property
    def claims(self) -> Marks:
        return Marks(self.folder / HIDDEN, "claim")

    @property
    def committer(self) -> RemoteCommitter:
        return RemoteCommitter(self.stage, self.claims, NewestDone(self.claims))

    def violations(self, plan: SinkPlan, where: str) -> Iterable[TidegateError]:
        flaw = self._flaw()
        if flaw is not None:
            yield TidegateError(
                Code.SINK_UNUSABLE,
                expected="a folder that can be listed",
                found=flaw.found,
                where=where,
                next_step=flaw.next_step,
            )

    def probed(self, what: str) -> Sequence[Finding]:
        flaw = self._flaw()
        if flaw is not None:
            return [failed(what, flaw.found, flaw.next_step)]
        return [ok(what, f"{self.folder} can be listed")]

    def open(self, identity: SinkIdentity) -> None:
        """Try what the claims rely on: of two writers at once exactly one creates a record."""
        broken = check_storage(open_storage(self.folder / HIDDEN))
        if broken is not None:
            raise broken
        self.claims.remove_leftovers(identity)

    def position(self, identity: SinkIdentity) -> Position | None:
        return self.claims.position(identity)

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return self.stage.unfinished(identity)

    def abort(self, transactions: Sequence[str]) -> None:
        self.stage.files.give_up(transactions)

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """The record of what is done comes last: until then a staged file may be copied."""
        self.stage.clean(identity, finished_through)
        if self.stage.files.keeps_staged:
            NewestDone(self.claims).raise_to(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self.stage.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        self.claims.forget(identity)
        NewestDone(self.claims).forget(identity)

    def _flaw(self) -> TidegateError | None:
        try:
            open_storage(self.folder).peek_names(HIDDEN)
        except TidegateError as error:
            return error
        return None
