"""Compares every row of the sinks with the files. Knows nothing of how they were read."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.checker import Finding, Kind
from tests.campaign.places import ROWS, SUMS
from tests.campaign_files.known import Known, Version, value_of
from tests.campaign_files.scene import ROWS_PER_FILE

_NAME = re.compile(r"(?:[a-z]+/)?f\d{5}\.json")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of `rows`."""

    file: str
    number: int
    value: int
    lucky: float


@dataclass(frozen=True, slots=True)
class Sum:
    """One row of `sums`: the rows of one content of a file."""

    file: str
    serial: int
    seen: int
    total: int


@dataclass(frozen=True, slots=True)
class Outputs:
    """What was found: of `rows` in both sinks."""

    table: Sequence[Row]
    files: Sequence[Row]
    sums: Sequence[Sum]

    @property
    def records(self) -> int:
        return len(self.table) + len(self.files) + len(self.sums)


def check(known: Known, outputs: Outputs) -> list[Finding]:
    """What is lost, repeated, torn or wrong. Each content of a file counts once in each query, whole or not at all."""
    rows = {name: _rows_by_version(found) for name, found in (("table", outputs.table), ("files", outputs.files))}
    found = [each for name, counts in rows.items() for each in _check_rows(known, f"rows-{name}", counts)]
    found += _check_values(outputs.table)
    found += _check_sums(known, outputs.sums)
    table, files = Counter(outputs.table), Counter(outputs.files)
    torn = [*(table - files), *(files - table)]
    return found + [Finding(Kind.TORN, "rows", None, f"{row} is in one of two sinks only") for row in torn]


def untrue(code: str, text: str, open_: set[Version], known: Known, folder: Path, lost: str) -> str | None:
    """Why a refusal is not true; None when it is. `open_`: the files of the epochs that are not done."""
    named = set(_NAME.findall(text))
    if code not in ("TG-FILE-LOST", "TG-FILE-CHANGED"):
        return "it is none of a file source"
    if lost == "skip":
        return "the program skips lost files"
    if not named:
        return "it names no file"
    for path in sorted(named):
        listed = [version for version in open_ if version.path == path]
        if not listed:
            return f"no open epoch has {path}"
        if all(version.is_at(folder) for version in listed):
            return f"{path} is there as it was"
        if all(known.there.get(path) == version for version in listed):
            return f"nobody but the job has touched {path}"
        if (code == "TG-FILE-LOST") == (folder / path).exists():
            return f"{path} is {'there' if code == 'TG-FILE-LOST' else 'gone'}"
    return None


def _rows_by_version(rows: Sequence[Row]) -> dict[tuple[str, int], Counter[int]]:
    found: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    for row in rows:
        found[row.file, row.number // ROWS_PER_FILE][row.number] += 1
    return found


def _check_rows(known: Known, sink: str, found: dict[tuple[str, int], Counter[int]]) -> Iterator[Finding]:
    judged = [version for version in known.versions if version not in known.unjudged]
    for version in judged:
        counts = found.get((version.path, version.serial), Counter())
        times = [counts[number] for number in version.numbers]
        if max(times) > 1:
            yield Finding(Kind.REPEATED, sink, None, f"rows of {version} are there {times} times", max(times) - 1)
        if len(set(times)) > 1:
            yield Finding(Kind.TORN, sink, None, f"rows of {version} are there {times} times")
    yield from _check_presence(known, sink, ROWS, set(found))


def _check_presence(known: Known, sink: str, query: str, present: set[tuple[str, int]]) -> Iterator[Finding]:
    for version in known.expected(query):
        if (version.path, version.serial) not in present:
            yield Finding(Kind.LOST, sink, None, f"no row of {version}")
    for path, serial in present - {(version.path, version.serial) for version in known.versions}:
        yield Finding(Kind.INVENTED, sink, None, f"rows of {path}, serial {serial}")
    judged = {(each.path, each.serial) for each in known.versions} - {(e.path, e.serial) for e in known.unjudged}
    again = Counter(path for path, serial in present if (path, serial) in judged)
    for path, times in again.items() if known.changed == "ignore" else ():
        if times > 1:
            yield Finding(Kind.REPEATED, sink, None, f"{path} was read again when it had changed")


def _check_values(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        if row.value != value_of(row.number):
            yield Finding(Kind.WRONG, "rows", None, str(row))


def _check_sums(known: Known, sums: Sequence[Sum]) -> Iterator[Finding]:
    by_version: dict[tuple[str, int], list[Sum]] = defaultdict(list)
    for each in sums:
        by_version[each.file, each.serial].append(each)
    for version in known.versions:
        found = by_version.get((version.path, version.serial), [])
        if not found or version in known.unjudged:
            continue
        whole = Sum(version.path, version.serial, ROWS_PER_FILE, sum(map(value_of, version.numbers)))
        if len(found) > 1 or found[0].seen > ROWS_PER_FILE:
            yield Finding(Kind.REPEATED, "sums", None, f"{version}: {found}", len(found) - 1 or 1)
        elif found != [whole]:
            yield Finding(Kind.TORN, "sums", None, f"{found[0]} instead of {whole}")
    yield from _check_presence(known, "sums", SUMS, set(by_version))
