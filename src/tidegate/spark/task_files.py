"""Files of this machine that Spark's tasks read or write.

A savepoint and a restore are put together on the disk of the driver. Tasks of a cluster run on other machines, which do
not see that disk. For them the files are copied to a folder of the job's storage, where nothing else looks, and what
they write is copied from there. The folder is removed afterwards; what a killed driver leaves is removed by the next
start, with everything else of that savepoint or that generation.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.core.errors import Code, TidegateError
from tidegate.disk.side_by_side import side_by_side
from tidegate.savepoints.operator_metadata import moved_to, names_schemas
from tidegate.savepoints.scratch import clear
from tidegate.spark.plain_name import plainly_named
from tidegate.spark.session import is_local
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """`place`: a folder that all machines reach; None if all tasks run on this machine. `passed`: called with the path
    of a file here for each block of it that is copied, in several threads. It may raise, to stop the copy.
    """

    place: Folder | None
    passed: Callable[[str], object] = lambda _path: None

    @classmethod
    def of(cls, session: SparkSession, place: Folder, passed: Callable[[str], object]) -> TaskFiles:
        """For the tasks of this session. `place`: used if it is not on a disk, and they run on other machines."""
        return cls(None if place.is_local or is_local(session) else place, passed)

    @contextmanager
    def read(self, folder: Path) -> Generator[str, None, None]:
        """A context with the URI under which tasks read the files of this folder.

        Raises storage errors, and what `passed` raises.
        """
        if self.place is None:
            with plainly_named(folder) as here:
                yield f"file:{here}"
            return
        with self._there(self.place) as there:
            self._send(folder, there)
            yield there.for_spark()

    @contextmanager
    def written(self, folder: Path) -> Generator[str, None, None]:
        """A context with the URI under which tasks add files to this folder, which may be absent. At the end they are
        in the folder itself; after an error they are nowhere. Raises like `read`.
        """
        if self.place is None:
            yield f"file:{folder}"
            return
        with self._there(self.place) as there:
            self._send(folder, there)
            yield there.for_spark()
            self._bring(there, folder)

    @staticmethod
    @contextmanager
    def _there(place: Folder) -> Generator[Folder, None, None]:
        there = place / secrets.token_hex(4)
        try:
            yield there
        except BaseException:
            with suppress(TidegateError):  # the next start removes it: this must not hide the first error
                clear(there)
            raise
        clear(there)

    def _send(self, folder: Path, there: Folder) -> None:
        source, target = open_checkpoint_files(folder), open_checkpoint_files(there)

        def send(name: str) -> None:
            if not names_schemas(name):
                self._copy(source, name, target, folder)
            elif not name.endswith(".crc"):  # Spark opens the schemas by the absolute paths in this file
                target.write(name, moved_to((folder / name).read_bytes(), there.for_spark(), str(folder / name)))

        for _ in side_by_side(send, [file.name for file in source.list()], at_least=2):
            pass

    def _bring(self, there: Folder, folder: Path) -> None:
        source, target = open_checkpoint_files(there), open_checkpoint_files(folder)
        folder.mkdir(exist_ok=True)
        sent = {file.name for file in target.list()}
        names = [file.name for file in source.list() if file.name not in sent]
        for _ in side_by_side(lambda name: self._copy(source, name, target, folder), names, at_least=2):
            pass

    def _copy(self, source: CheckpointFiles, name: str, target: CheckpointFiles, folder: Path) -> None:
        if source.copy(name, target, lambda _bytes: self.passed(str(folder / name))) is None:
            raise TidegateError(
                Code.STORAGE_UNUSABLE,
                expected="a file that was listed a moment ago, and that nothing else removes",
                found="it is gone",
                where=source.where(name),
                next_step="try again; `tidegate check` tries the storage",
            )
