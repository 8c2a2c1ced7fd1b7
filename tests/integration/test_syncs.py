"""What is prepared survives a power loss: everything that Spark wrote for the epoch is synced before the record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.integration.place import Place, run
from tidegate import FileSink
from tidegate.storages.local.storage import LocalStorage

Version: TypeAlias = tuple[int, int, int]


class Syncs:
    """Every sync of this process: when, and which version of a file or folder it made durable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._versions: dict[Path, Version] = {}
        self._turns: dict[Path, int] = {}
        self._turn = 0
        fsync = os.fsync

        def recorded(descriptor: int) -> None:
            path, version = Path(os.readlink(f"/proc/self/fd/{descriptor}")), version_of(os.fstat(descriptor))
            fsync(descriptor)
            self._turn += 1
            self._versions[path], self._turns[path] = version, self._turn

        monkeypatch.setattr(os, "fsync", recorded)

    def missing(self, folder: Path) -> list[str]:
        """What a power loss may take of the files of a Spark checkpoint, `commits/` aside."""
        files = [path for path in folder.rglob("*") if path.is_file() and not passing(path.relative_to(folder))]
        found = [str(file.relative_to(folder)) for file in files if not self._is_durable(file)]
        folders = {parent for file in files for parent in file.parents if parent.is_relative_to(folder)}
        found += [f"{each.relative_to(folder)}/" for each in folders if not self._is_current(each)]
        return sorted(found)

    def _is_durable(self, file: Path) -> bool:
        return self._is_current(file) and self._turns.get(file.parent, 0) > self._turns[file]

    def _is_current(self, path: Path) -> bool:
        return self._versions.get(path) == version_of(path.stat())


def version_of(status: os.stat_result) -> Version:
    return status.st_ino, status.st_size, status.st_mtime_ns


def passing(path: Path) -> bool:
    """Commits entries, which *decided* keeps, and files that Spark has not finished."""
    return path.parts[0] == "commits" or ".tmp" in path.name


def test_everything_of_an_epoch_is_durable_before_it_is_prepared(place: Place, monkeypatch: pytest.MonkeyPatch):
    for words in (["sea", "sand"], ["sea"], ["wind"]):
        place.write(*words)
    syncs = Syncs(monkeypatch)
    seen: dict[str, list[str]] = {}
    there: dict[str, set[str]] = {}

    def looking(storage: LocalStorage, name: str, data: bytes) -> bool:
        if name.startswith("ledger/prepared/"):
            folder = place.query() / "spark"
            seen[name] = syncs.missing(folder)
            there[name] = {path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()}
        return put(storage, name, data)

    put: Callable[[LocalStorage, str, bytes], bool] = LocalStorage.put_if_absent
    monkeypatch.setattr(LocalStorage, "put_if_absent", looking)
    job = place.job()
    counts = place.words(job).groupBy("word").count()
    job.query("query", counts, mode="update", sinks=[FileSink("files", place.folder / "out", format="json")])
    run(job)

    assert seen == {f"ledger/prepared/{epoch}.1": [] for epoch in range(3)}
    assert all({"offsets", "sources", "state", "metadata"} <= names for names in there.values())
