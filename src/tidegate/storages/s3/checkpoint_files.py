"""`CheckpointFiles` in a bucket of S3: the server copies what is held."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.errors import Code, TidegateError
from tidegate.disk.blocks import Readable, read_blocks
from tidegate.storages.checkpoint_files import (
    CheckpointFile,
    CheckpointFiles,
    Measured,
    copy_by_reading,
    is_of_a_dead_engine,
    is_temporary,
)
from tidegate.storages.refusals import name_taken
from tidegate.storages.s3.bucket import S3Bucket
from tidegate.storages.s3.names import ObjectKeys
from tidegate.storages.s3.reading import ObjectFile, opened
from tidegate.storages.s3.uploads import Upload, abort_below, copied
from tidegate.storages.schemes import Folder, Scheme


class S3CheckpointFiles:
    """The files below a folder. What Spark has closed is durable there, so that `sync` sends no request."""

    def __init__(self, folder: Folder) -> None:
        self._keys = ObjectKeys(folder)
        self._bucket = S3Bucket(folder.authority)

    def where(self, name: str = "") -> str:
        return self._keys.where(name)

    def list(self, folder: str = "") -> list[CheckpointFile]:
        found = self._bucket.below(self._keys.prefix(folder), "list the files of a checkpoint")
        files = [CheckpointFile(self._keys.name(each.key), each.size_bytes, each.written_at) for each in found]
        return sorted((each for each in files if _is_file(each.name)), key=lambda each: each.name)

    def unfinished(self) -> list[str]:
        found = self._bucket.below(self._keys.prefix(""), "list the files of a checkpoint")
        names = (self._keys.name(each.key) for each in found)
        return sorted(name for name in names if is_of_a_dead_engine(name.rpartition("/")[2]))

    def open(self, name: str) -> ObjectFile | None:
        return opened(self._bucket, self._keys.key(name), "read a file of a checkpoint")

    def write(self, name: str, data: bytes) -> None:
        key = self._keys.key(name)
        if not self._bucket.put_if_absent(key, data, "write a file of a checkpoint"):
            raise name_taken(self._bucket.where(key))

    def hold(self, name: str, into: str) -> bool:
        """The server copies: a large state costs storage and time, and no byte comes through this process."""
        folder = Folder.of(into)
        if folder.scheme is not Scheme.S3:
            raise _of_another_storage(into)
        key = ObjectKeys(folder).key(name)
        return copied(
            self._bucket, self._keys.key(name), S3Bucket(folder.authority), key, "hold a file of a checkpoint by a copy"
        )

    def copy(self, name: str, to: CheckpointFiles, passed: Callable[[int], object]) -> Measured | None:
        return copy_by_reading(self, name, to, passed)

    def create(self, name: str, source: Readable, passed: Callable[[int], object]) -> Measured:
        key = self._keys.key(name)
        upload = Upload(self._bucket, key, "copy a file of a checkpoint")

        def take(block: memoryview) -> None:
            upload.write(block)
            passed(len(block))

        try:
            measured = Measured(*read_blocks(source, take))
            if not upload.end():
                raise name_taken(self._bucket.where(key))
        except BaseException:
            upload.abort()
            raise
        return measured

    def delete(self, name: str) -> None:
        self._bucket.delete(self._keys.key(name), "remove a file of a checkpoint")

    def clear(self, folder: str) -> None:
        """Parts of uploads that were broken off below the folder go, too."""
        prefix = self._keys.prefix(folder)
        self._bucket.delete_below(prefix, "clear a folder of a checkpoint")
        abort_below(self._bucket, prefix, "clear a folder of a checkpoint")

    def sync(self) -> list[str]:
        return []


def _is_file(name: str) -> bool:
    """False for marks of folders, also of the root, and for what Spark is still writing."""
    return name != "" and not name.endswith("/") and not is_temporary(name.rpartition("/")[2])


def _of_another_storage(into: str) -> TidegateError:
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected="to hold a file of a checkpoint by a copy in the same storage",
        found="a folder of another storage",
        where=into,
        next_step="name a folder of the storage that has the checkpoint (s3://bucket/path)",
    )
