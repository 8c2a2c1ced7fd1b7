"""The folder of a file sink on a disk of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding, failed, ok
from tidegate.core.records import Position, SinkIdentity
from tidegate.disk.durable import ensure_folder
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.files.committer import FileCommitter
from tidegate.sinks.files.names import hidden_in
from tidegate.sinks.files.stage import LocalStage
from tidegate.sinks.marks import Marks
from tidegate.sinks.refusals import not_on_a_cluster
from tidegate.sinks.staging import StagedFiles, unwritable


@dataclass(frozen=True, slots=True)
class LocalPlace:
    """A folder on a disk. Staged files are renamed to their final names."""

    path: Path

    @property
    def files(self) -> StagedFiles:
        """The staged files, as paths."""
        return StagedFiles(hidden_in(self.path), ".staged")

    @property
    def claims(self) -> Marks:
        return Marks(hidden_in(self.path), "claim")

    @property
    def stage(self) -> LocalStage:
        return LocalStage.of(self.files)

    @property
    def committer(self) -> FileCommitter:
        return FileCommitter(self.path, self.files, self.claims)

    def violations(self, plan: SinkPlan, where: str) -> Iterable[TidegateError]:
        return folder_violations(plan, self.path, hidden_in(self.path), where)

    def probed(self, what: str) -> Sequence[Finding]:
        flaw = unwritable(self.path)
        if flaw is not None:
            return [failed(what, flaw, "give this user the right to write there")]
        return [ok(what, f"{self.path} can be written")]

    def open(self, identity: SinkIdentity) -> None:
        ensure_folder(hidden_in(self.path))
        self.claims.remove_leftovers(identity)

    def position(self, identity: SinkIdentity) -> Position | None:
        return self.claims.position(identity)

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return ()

    def abort(self, transactions: Sequence[str]) -> None:
        """Every file stands in its folder: `clean` and `discard` remove it."""

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self.files.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self.files.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        self.claims.forget(identity)


def folder_violations(plan: SinkPlan, target: Path, hidden: Path, where: str) -> Iterator[TidegateError]:
    """Violations, if the tasks cannot write into `hidden` or rename from there into `target`."""
    if not plan.local_master:
        yield not_on_a_cluster(where)
    reason = unwritable(hidden) or _on_another_disk(hidden, target)
    if reason:
        yield TidegateError(
            Code.SINK_UNUSABLE,
            expected="a folder that can be written and renamed in",
            found=reason,
            where=where,
            next_step=f"give this user the right to write in {target}, or give the sink another path=",
        )


def _on_another_disk(hidden: Path, target: Path) -> str | None:
    if hidden.exists() and hidden.stat().st_dev != target.stat().st_dev:
        return f"{hidden} is on another disk than {target}: a rename between them is not atomic"
    return None
