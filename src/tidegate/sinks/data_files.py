"""The data files of a table: staged beside it by the tasks, given their final names by the driver before the commit.

    .tidegate/<job id>/g<generation>/<query>.<sink>/e<epoch>/...     staged; VACUUM leaves hidden folders alone
    [<column>=<value>/...]<job>-<job id>-g<generation>-e<epoch>-...  published; visible when the log names it

A staged file stays until its epoch is done. So it is the journal: a published file that VACUUM has removed before the
commit is published again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Committable, SinkIdentity
from tidegate.disk.durable import ensure_folder, sync_file, sync_folder
from tidegate.disk.linking import linked
from tidegate.sinks.files.names import HIDDEN, final_name, hidden_in
from tidegate.sinks.files.parts import CHECKSUM_UP_TO_BYTES, AttemptPart, flaws_of, parts_of
from tidegate.sinks.files.remote_stage import RemoteStage, proof_of
from tidegate.sinks.files.stage import FileStage, LocalStage
from tidegate.sinks.staging import StagedFiles
from tidegate.storages.check import check_storage
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.target_files import Published


class DataFiles(Protocol):
    """Staged and published files of a sink. It travels to the tasks, so it holds settings only."""

    @property
    def stage(self) -> FileStage: ...

    def open(self) -> None:
        """Create what is missing, and try what a start can try."""
        ...

    def flaws(self, committable: Committable) -> Mapping[int, str]:
        """What is wrong with staged files, in words, by their number."""
        ...

    def staged(self, committable: Committable, part: AttemptPart) -> str:
        """The path of a staged file below the table."""
        ...

    def publish(self, committables: Sequence[Committable]) -> None:
        """Give every staged file its final name, durably. Idempotent. The caller has looked at the staged files."""
        ...

    def pending(self, identity: SinkIdentity) -> Sequence[str]: ...

    def abort(self, transactions: Sequence[str]) -> None: ...

    def clean(self, identity: SinkIdentity, finished_through: int) -> None: ...

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int: ...


def data_files_of(folder: Folder) -> DataFiles:
    return LocalDataFiles(folder.local()) if folder.is_local else RemoteDataFiles(folder)


def final_path(committable: Committable, part: AttemptPart) -> str:
    """The path of a published file below the table, as it stands on the storage."""
    name = final_name(committable.attempt, committable.handle["suffix"], part.number)
    return f"{part.folder}/{name}" if part.folder else name


@dataclass(frozen=True, slots=True)
class LocalDataFiles:
    """On a disk a published file is a second name of the staged one, so it was synced with it."""

    root: Path

    @property
    def files(self) -> StagedFiles:
        return StagedFiles(hidden_in(self.root), ".staged")

    @property
    def stage(self) -> FileStage:
        return LocalStage.of(self.files)

    def open(self) -> None:
        ensure_folder(hidden_in(self.root))

    def flaws(self, committable: Committable) -> Mapping[int, str]:
        return flaws_of(self.files, committable)

    def staged(self, committable: Committable, part: AttemptPart) -> str:
        return str(self.files.file(committable.attempt, part.number).relative_to(self.root))

    def publish(self, committables: Sequence[Committable]) -> None:
        named = [(each, part) for each in committables for part in parts_of(each)]
        for committable, part in named:
            self._publish(self.files.file(committable.attempt, part.number), final_path(committable, part), part)
        folders = {level for each, part in named for level in Path(final_path(each, part)).parents}
        for folder in sorted(folders, reverse=True):  # the deepest first
            sync_folder(self.root / folder)

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return ()

    def abort(self, transactions: Sequence[str]) -> None:
        """Every staged file stands in its folder: `clean` and `discard` remove it."""

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self.files.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self.files.discard(identity, from_epoch)

    def _publish(self, staged: Path, name: str, part: AttemptPart) -> None:
        final = self.root / name
        final.parent.mkdir(parents=True, exist_ok=True)
        if linked(staged, final):
            return
        if part.seal.flaw_of(final, checksum_up_to_bytes=CHECKSUM_UP_TO_BYTES) is not None:
            _copy(staged, final)  # no links on this file system, or what has the name is not the file


@dataclass(frozen=True, slots=True)
class RemoteDataFiles:
    """On a storage that is no disk. Its server copies a staged file."""

    root: Folder

    @property
    def stage(self) -> RemoteStage:
        return RemoteStage(self.root)

    def open(self) -> None:
        """Try what the log relies on: of two writers at once exactly one creates a file."""
        broken = check_storage(open_storage(self.root / HIDDEN))
        if broken is not None:
            raise broken

    def flaws(self, committable: Committable) -> Mapping[int, str]:
        return {number: fit.value for number, fit in self.stage.misfits(committable).items()}

    def staged(self, committable: Committable, part: AttemptPart) -> str:
        return self.stage.name(committable.attempt, part)

    def publish(self, committables: Sequence[Committable]) -> None:
        stage = self.stage
        for committable in committables:
            for part in parts_of(committable):
                staged, final = stage.name(committable.attempt, part), final_path(committable, part)
                if stage.files.publish(staged, final, proof_of(part)) is not Published.VISIBLE:
                    raise _not_published(stage.files.where(final))

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        return self.stage.unfinished(identity)

    def abort(self, transactions: Sequence[str]) -> None:
        self.stage.files.give_up(transactions)

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self.stage.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self.stage.discard(identity, from_epoch)


def _copy(staged: Path, final: Path) -> None:
    """The content under the final name, synced before it has the name."""
    whole = staged.with_name(f"{staged.name}.copy")
    shutil.copyfile(staged, whole)
    with whole.open("rb") as file:
        sync_file(file.fileno())
    os.replace(whole, final)


def _not_published(where: str) -> TidegateError:
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected="a staged file that becomes a file of the table",
        found="the staged file is gone, or another file has its name",
        where=where,
        next_step=f"leave {HIDDEN} in the table's folder alone while the job runs; then start again",
    )
