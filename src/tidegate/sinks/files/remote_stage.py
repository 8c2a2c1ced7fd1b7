"""The staged files of a file sink whose folder is not on a disk.

    .tidegate/<job id>/g<generation>/<query>.<sink>/e<epoch>/<attempt>.<number>.<token>.staged

The token makes each begin of an attempt a file of its own, so that none is ever written over.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.records import Attempt, Committable, SinkIdentity
from tidegate.sinks.files.names import HIDDEN
from tidegate.sinks.files.parts import AttemptPart, parts_of
from tidegate.sinks.staging import epoch_folder, epoch_of, owner_folder
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage
from tidegate.storages.target_files import FileProof, Fit, NameLimits, NewTargetFile
from tidegate.storages.targets import open_target_files

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tidegate.storages.target_files import TargetFiles

SUFFIX = ".staged"


@dataclass(frozen=True, slots=True)
class RemoteStage:
    """The staged files below the folder `target`."""

    target: Folder

    @property
    def files(self) -> TargetFiles:
        """The files below the target. Cheap: the connection belongs to the process."""
        return open_target_files(self.target)

    @property
    def limits(self) -> NameLimits:
        return self.files.limits

    @property
    def file_bytes_at_most(self) -> int | None:
        return self.files.file_bytes_at_most

    @property
    def open_at_most(self) -> int:
        return self.files.open_at_most

    def create(self, attempt: Attempt, number: int) -> NewRemoteFile:
        token = secrets.token_hex(16)
        return NewRemoteFile(self.files.create(_name(attempt, number, token), token), token)

    def sync(self, attempt: Attempt, files: int) -> None:
        """A file that is closed is durable."""

    def name(self, attempt: Attempt, part: AttemptPart) -> str:
        """The name of a staged file below the target."""
        return _name(attempt, part.number, part.token)

    def epoch(self, attempt: Attempt) -> str:
        """The folder of the staged files of the attempt's epoch, below the target."""
        return f"{HIDDEN}/{epoch_folder(attempt.sink, attempt.epoch)}"

    def fit(self, attempt: Attempt, part: AttemptPart) -> Fit:
        """Compare a staged file with the committable's proof."""
        return self.files.fit(self.name(attempt, part), proof_of(part))

    def misfits(self, committable: Committable) -> dict[int, Fit]:
        """The staged files that are not as the committable says, by their number."""
        attempt = committable.attempt
        fits = {part.number: self.fit(attempt, part) for part in parts_of(committable)}
        return {number: fit for number, fit in fits.items() if fit is not Fit.SAME}

    def in_words(self, committable: Committable, misfits: Mapping[int, Fit]) -> str:
        """These misfits for an answer's detail."""
        names = {part.number: self.name(committable.attempt, part) for part in parts_of(committable)}
        return "; ".join(f"{self.files.where(names[number])}: {fit.value}" for number, fit in misfits.items())

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Remove the epochs of `identity` up to `finished_through`."""
        storage = self._storage()
        for epoch in self._epochs(storage, identity):
            if epoch <= finished_through:
                storage.clear(epoch_folder(identity, epoch))

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        """Remove the epochs of `identity` from `from_epoch` on. Returns the number of attempts with staged files."""
        storage = self._storage()
        attempts: set[tuple[int, str]] = set()
        for epoch in self._epochs(storage, identity):
            if epoch >= from_epoch:
                folder = epoch_folder(identity, epoch)
                names = storage.peek_names(folder)
                attempts |= {(epoch, name.partition(".")[0]) for name in names if name.endswith(SUFFIX)}
                storage.clear(folder)
        return len(attempts)

    def unfinished(self, identity: SinkIdentity) -> Sequence[str]:
        """What attempts of `identity` have begun to write, and neither closed nor abandoned."""
        return self.files.unfinished(f"{HIDDEN}/{owner_folder(identity)}")

    def _epochs(self, storage: Storage, identity: SinkIdentity) -> list[int]:
        found = (epoch_of(name) for name in storage.folders(owner_folder(identity)))
        return sorted(epoch for epoch in found if epoch is not None)

    def _storage(self) -> Storage:
        return open_storage(self.target / HIDDEN)


class NewRemoteFile:
    """A staged file that is written."""

    def __init__(self, file: NewTargetFile, token: str) -> None:
        self.token = token
        self._file = file

    def write(self, data: Buffer, /) -> int:
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        self._file.abandon()


def proof_of(part: AttemptPart) -> FileProof:
    """What proves that a file is this part of an attempt."""
    return FileProof(part.seal.size_bytes, part.seal.checksum, part.token)


def _name(attempt: Attempt, number: int, token: str) -> str:
    folder = epoch_folder(attempt.sink, attempt.epoch)
    return f"{HIDDEN}/{folder}/{attempt.name}.{number}.{token}{SUFFIX}"
