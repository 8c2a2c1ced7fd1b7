"""The keys of objects below a folder of S3."""

from __future__ import annotations

from tidegate.storages.schemes import Folder


class ObjectKeys:
    """Names below a folder, as keys of its bucket."""

    def __init__(self, folder: Folder) -> None:
        path = folder.path.strip("/")
        self._root = f"{path}/" if path else ""
        self._where = str(folder).removesuffix("/")

    def key(self, name: str) -> str:
        """The key of an object."""
        return f"{self._root}{name}"

    def prefix(self, folder: str = "") -> str:
        """What all keys below this folder begin with."""
        return f"{self._root}{folder}/" if folder else self._root

    def name(self, key: str) -> str:
        """The name of a key below the folder."""
        return key.removeprefix(self._root)

    def where(self, name: str = "") -> str:
        """The URI of a name, for messages."""
        return f"{self._where}/{name}" if name else self._where
