"""`Storage` in a bucket of S3."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.storages.s3.bucket import S3Bucket
from tidegate.storages.s3.names import ObjectKeys
from tidegate.storages.s3.uploads import abort_below
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Names, RecordStat, demand_below


class S3Storage:
    """Records as objects below a prefix. A put is durable and visible everywhere at its return.

    A record is created by a conditional put (`If-None-Match: *`) with a token of its own; a replace is a plain put. Old
    versions in a bucket with versioning are never read.
    """

    def __init__(self, folder: Folder, bucket: S3Bucket | None = None) -> None:
        self._folder = folder
        self._keys = ObjectKeys(folder)
        self._bucket = bucket or S3Bucket(folder.authority)

    def where(self, name: str = "") -> str:
        demand_below(name)
        return self._keys.where(name)

    def below(self, folder: str) -> S3Storage:
        demand_below(folder)
        return S3Storage(self._folder / folder if folder else self._folder, self._bucket)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return self._bucket.put_if_absent(self._key(name), data, "create a record")

    def replace(self, name: str, data: bytes) -> None:
        self._bucket.put(self._key(name), data, "replace a record")

    def note(self, name: str, data: bytes) -> None:
        self.replace(name, data)

    def read(self, name: str) -> bytes | None:
        return self._bucket.read(self._key(name), "read a record")

    def peek(self, name: str) -> bytes | None:
        return self.read(name)

    def look(self, name: str) -> RecordStat | None:
        found = self._bucket.look(self._key(name), "look at a record")
        return None if found is None else RecordStat(found.size_bytes, found.written_at)

    def list(self, folder: str) -> Names:
        demand_below(folder)
        prefix = self._keys.prefix(folder)
        found = self._bucket.directly_below(prefix, "list a folder")
        # A key that ends with `/` marks a folder: Spark's client makes some.
        return sorted(each.key.removeprefix(prefix) for each in found.objects if not each.key.endswith("/"))

    def peek_names(self, folder: str) -> Names:
        return self.list(folder)

    def folders(self, folder: str) -> Names:
        demand_below(folder)
        prefix = self._keys.prefix(folder)
        found = self._bucket.directly_below(prefix, "list a folder")
        return sorted(each.removeprefix(prefix).removesuffix("/") for each in found.prefixes)

    def delete(self, name: str) -> None:
        self._bucket.delete(self._key(name), "remove a record")

    def delete_all(self, names: Sequence[str]) -> None:
        self._bucket.delete_all([self._key(name) for name in names], "remove records")

    def delete_folder(self, folder: str) -> None:
        """Remove the mark of a folder, an empty object that Spark's client makes. Records below it stay."""
        demand_below(folder)
        self._bucket.delete(self._keys.prefix(folder), "remove a folder")

    def clear(self, folder: str) -> None:
        """Parts of uploads that were broken off below the folder go, too."""
        demand_below(folder)
        prefix = self._keys.prefix(folder)
        self._bucket.delete_below(prefix, "remove a folder")
        abort_below(self._bucket, prefix, "remove a folder")

    def settle(self, folder: str) -> None:
        demand_below(folder)  # a delete is durable at its return

    def set_aside(self, name: str) -> str | None:
        """The content goes through this process, because only a put is conditional on every server. What is set aside
        is an entry of Spark's log, which is small.
        """
        data = self.read(name)
        if data is None:
            return None
        folder, slash, file = name.rpartition("/")
        number = 0
        while not self.put_if_absent(aside := f"{folder}{slash}.aside-{file}-{number}", data):
            number += 1
        self.delete(name)
        return aside

    def remove_leftovers(self, folder: str, of: str = "") -> None:
        demand_below(folder)  # a put leaves nothing

    def _key(self, name: str) -> str:
        demand_below(name)
        return self._keys.key(name)
