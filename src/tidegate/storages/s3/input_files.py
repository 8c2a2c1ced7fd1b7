"""`InputFiles` in a bucket of S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.storages.input_files import InputFile
from tidegate.storages.s3.bucket import FoundObject, S3Bucket
from tidegate.storages.s3.names import ObjectKeys
from tidegate.storages.schemes import Folder


class S3InputFiles:
    """The objects below a folder. An object appears whole.

    A list has all objects below the prefix, a thousand in each request; a request for each folder would be more of
    them. Some answers have times in whole seconds, so all have. What tells two objects of one second apart is the ETag.
    """

    appear_whole = True
    can_move = False
    time_unit_ns = 1_000_000_000

    def __init__(self, folder: Folder, bucket: S3Bucket | None = None) -> None:
        self._keys = ObjectKeys(folder)
        self._bucket = bucket or S3Bucket(folder.authority)

    def where(self, name: str = "") -> str:
        return self._keys.where(name)

    def below(self, enters: Callable[[str], bool]) -> Iterator[InputFile]:
        for each in self._bucket.below(self._keys.prefix(), "list a folder"):
            if not each.key.endswith("/"):  # the mark of a folder
                yield self._input(self._keys.name(each.key), each)

    def look(self, name: str) -> InputFile | None:
        found = self._bucket.look(self._keys.key(name), "look at an object")
        return None if found is None else self._input(name, found)

    def digest(self, name: str) -> str | None:
        found = self._bucket.look(self._keys.key(name), "look at an object")
        return None if found is None else found.etag

    def move(self, name: str, into: Folder, known_as: str) -> bool:
        raise NotImplementedError("S3 has no rename")

    def remove(self, name: str) -> None:
        raise NotImplementedError("an object that another program has just replaced could be removed")

    def _input(self, name: str, found: FoundObject) -> InputFile:
        return InputFile(name, found.size_bytes, int(found.written_at) * self.time_unit_ns)
