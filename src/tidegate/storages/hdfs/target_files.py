"""`TargetFiles` on HDFS: a staged file is published by a rename that overwrites nothing."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tidegate.storages.hdfs.client import HdfsClient, Tries, Waits, client_of
from tidegate.storages.hdfs.failures import HdfsFailure, translated
from tidegate.storages.hdfs.publish import NewFile
from tidegate.storages.refusals import name_taken
from tidegate.storages.schemes import Folder
from tidegate.storages.target_files import FileProof, Fit, NameLimits, Published

if TYPE_CHECKING:
    from typing_extensions import Buffer

PATH_BYTES_AT_MOST = 8000
"""The NameNode's own limit (`MAX_PATH_LENGTH`); it cannot be set."""


class HdfsTargetFiles:
    """The files below a folder.

    A rename is one step of the NameNode, and in its log of edits when it is answered. Of two renames of one staged file
    the second finds nothing, so a rename that broke off may be repeated, and one that is carried out late does no harm.
    The name of a staged file has the token of its writer; so name and size are its proof, and no byte of it is read.
    """

    keeps_staged = False
    file_bytes_at_most = None
    open_at_most = 16

    def __init__(self, root: Folder, waits: Waits | None = None) -> None:
        self._root = root
        self._waits = Waits() if waits is None else waits
        self.limits = NameLimits(len(os.fsencode(root.path)), PATH_BYTES_AT_MOST)

    def where(self, name: str = "") -> str:
        return str(self._root / name) if name else str(self._root)

    def create(self, name: str, token: str) -> NewHdfsFile:
        return NewHdfsFile(self._client(), self._path(name), self.where(name))

    def fit(self, name: str, proof: FileProof) -> Fit:
        with translated(self.where(name), "look at a file"):
            return self._fit(name, proof, self._client().tries())

    def publish(self, name: str, to: str, proof: FileProof) -> Published:
        with translated(self.where(to), "publish a staged file"):
            folder = posixpath.dirname(to)
            if folder:  # without one, the folder of the staged files is below it, so it is there
                self._client().make_folder(self._path(folder))
            return self._renamed(name, to, proof)

    def unfinished(self, folder: str) -> Sequence[str]:
        return ()

    def give_up(self, unfinished: Sequence[str]) -> None:
        """An unfinished file has a hidden name in its folder, and goes with it."""

    def proves_publication(self, folder: str) -> bool:
        with translated(self.where(folder), "look at a folder"):
            found = self._client().status(self._path(folder))
        return found is not None and found.is_folder

    def settle(self, folders: Iterable[str]) -> None:
        """One edit is enough for all: the NameNode writes its edits in order."""
        with translated(self.where(), "make names durable"):
            self._client().log_edit(self._root.path)

    def _renamed(self, name: str, to: str, proof: FileProof) -> Published:
        client = self._client()
        tries = client.tries()
        while True:
            try:
                client.rename(self._path(name), self._path(to), overwrite=False)
            except HdfsFailure as failure:
                found = self._fit(to, proof, tries)
                is_staged = self._fit(name, proof, tries) is not Fit.ABSENT
                if found is Fit.SAME and not is_staged:
                    return Published.VISIBLE
                if found is not Fit.ABSENT:
                    return Published.TAKEN
                if not is_staged:
                    return Published.UNSTAGED
                if not tries.again(failure):
                    raise
            else:
                return Published.VISIBLE

    def _fit(self, name: str, proof: FileProof, tries: Tries) -> Fit:
        found = self._client().status(self._path(name), tries=tries)
        if found is None:
            return Fit.ABSENT
        return Fit.SAME if not found.is_folder and found.size_bytes == proof.size_bytes else Fit.OTHER

    def _path(self, name: str) -> str:
        return posixpath.join(self._root.path, name) if name else self._root.path

    def _client(self) -> HdfsClient:
        return client_of(self._root, self._waits)


class NewHdfsFile:
    """A staged file that is written. It gets its name when it is whole and synced."""

    def __init__(self, client: HdfsClient, path: str, where: str) -> None:
        self._client = client
        self._path = path
        self._where = where
        self._file = NewFile(client, path)
        self._is_closed = False

    def write(self, data: Buffer, /) -> int:
        with translated(self._where, "write a staged file"):
            return self._file.write(data)

    def close(self) -> None:
        with translated(self._where, "write a staged file"):
            if not self._file.publish():
                raise name_taken(self._where)
        self._is_closed = True

    def abandon(self) -> None:
        if not self._is_closed:
            self._file.abandon()
        else:
            with suppress(HdfsFailure):
                self._client.delete(self._path, tries=Tries(0))
