"""What the campaign itself knows of the files, and what the checkpoint says that each query has in its epochs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from tests.campaign.drivers import CampaignFailed
from tests.campaign.footprint import Footprint
from tests.campaign.places import QUERIES
from tests.campaign_files.scene import ROWS_PER_FILE
from tests.support.file_reading import lists_back_from
from tidegate.sources.files.lists import BEGIN, ListPosition


@dataclass(frozen=True, slots=True)
class Version:
    """One content of one path. No two have the same rows; a file that was renamed has the same under another path."""

    path: str
    serial: int
    mtime_ns: int

    @property
    def numbers(self) -> range:
        return range(self.serial * ROWS_PER_FILE, (self.serial + 1) * ROWS_PER_FILE)

    @property
    def data(self) -> bytes:
        lines = [json.dumps({"number": number, "value": value_of(number)}) for number in self.numbers]
        return "".join(f"{line}\n" for line in lines).encode()

    def is_at(self, folder: Path) -> bool:
        """Whether this very file stands there now."""
        try:
            status = (folder / self.path).stat()
        except FileNotFoundError:
            return False
        return (status.st_size, status.st_mtime_ns) == (len(self.data), self.mtime_ns)


def value_of(number: int) -> int:
    return number * 7919 % 1009


@dataclass(slots=True)
class Known:
    """`there`: what stands in the folder, by path. `listed`: what the epochs of a query have, each of which Spark's log
    names. `skipped`: what a query may leave out, as the program said so. `unjudged`: written more slowly than files
    that settle are."""

    versions: list[Version] = field(default_factory=list[Version])
    there: dict[str, Version] = field(default_factory=dict[str, Version])
    listed: dict[str, set[Version]] = field(default_factory=lambda: {query: set() for query in QUERIES})
    skipped: dict[str, set[Version]] = field(default_factory=lambda: {query: set() for query in QUERIES})
    unjudged: set[Version] = field(default_factory=set[Version])
    changed: str = "ignore"

    def expected(self, query: str) -> set[Version]:
        """What the query must have read, when all is through."""
        listed = self.listed[query]
        paths = {version.path for version in listed}
        new = {each for each in self.there.values() if self.changed == "reread" or each.path not in paths}
        return (listed | new) - self.skipped[query] - self.unjudged

    def note(self, query: Footprint) -> None:
        """Take in the lists that the query's checkpoint has now."""
        self.listed[query.uid] |= self._in_lists(query, -1)

    def open(self, query: Footprint) -> set[Version]:
        """What the epochs have that are not done."""
        return self._in_lists(query, _position(query, query.newest("ledger/done")).logOffset)

    def _in_lists(self, query: Footprint, behind: int) -> set[Version]:
        by_file = {(version.path, version.mtime_ns): version for version in self.versions}
        folder = query.folder / "spark" / "sources" / "0"
        lists = lists_back_from(folder, _position(query, query.newest("spark/offsets")))
        found = {file for number, entry in lists if number > behind for file in _files_of(entry)}
        paths = {version.path for version in self.unjudged}
        for path, mtime_ns in found - by_file.keys():
            if path not in paths:
                raise CampaignFailed(f"an epoch of {query.uid} has {path} of {mtime_ns} ns, which never was whole")
        return {by_file[file] for file in found & by_file.keys()}


def _position(query: Footprint, epoch: int) -> ListPosition:
    """The list with which the epoch ends."""
    try:
        found = json.loads((query.folder / "spark" / "offsets" / str(epoch)).read_text().splitlines()[-1])
        return ListPosition(logOffset=found["logOffset"], digest=found["digest"])
    except (FileNotFoundError, ValueError, IndexError):
        return BEGIN


def _files_of(entry: Path) -> list[tuple[str, int]]:
    try:
        lines = entry.read_text().splitlines()[2:]
    except FileNotFoundError:
        return []
    return [(each["path"], each["mtime_ns"]) for each in map(json.loads, lines)]
