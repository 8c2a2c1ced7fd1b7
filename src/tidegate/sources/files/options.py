"""The options of a file source: tidegate's own, and Spark's names for the same options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

from tidegate.settings.kinds import COUNT_FROM_1, DURATION, FLAG, SettingKind


class Changed(Enum):
    """What to do with a file that changed after it was read."""

    IGNORE = "ignore"
    REFUSE = "refuse"
    REREAD = "reread"


class LostFiles(Enum):
    """What to do if a file is missing or changed before its epoch is done."""

    REFUSE = "refuse"
    SKIP = "skip"


KEEP = "keep"
DELETE = "delete"
ARCHIVE = "archive:"


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The options of a file source.

    `max_files` and `max_bytes` limit an epoch. `settle_seconds`: how long a new file must stay unchanged before it is
    read. `after_done`: `keep`, `delete` or `archive:DIR`. `spark`: options of the file format, with Spark's names.
    """

    pattern: str | None = None
    recursive: bool = False
    max_files: int | None = None
    max_bytes: int | None = None
    settle_seconds: float = 2.0
    after_done: str = KEEP
    lost: LostFiles = LostFiles.REFUSE
    changed: Changed = Changed.IGNORE
    spark: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def archive(self) -> str | None:
        """The folder for files that are done; None if they are not moved."""
        return self.after_done.removeprefix(ARCHIVE) if self.after_done.startswith(ARCHIVE) else None


def read_options(
    own: Mapping[str, object], spark: Mapping[str, object], *, is_pattern: bool
) -> tuple[FileOptions, list[tuple[str, str]]]:
    """Read the options. Returns them, and a pair (expected, found) for each one that is invalid.

    `own`: options under tidegate's names. `spark`: all others. `is_pattern`: True if the path contains a pattern.
    """
    wrong: list[tuple[str, str]] = []
    found = _own(own, wrong)
    left: dict[str, str] = {}
    given = {name.lower(): value for name, value in spark.items() if value is not None}
    for name, value in spark.items():
        lower = name.lower()
        if lower in _MAPPED:
            mapped, kind = _MAPPED[lower]
            if own.get(mapped) is not None:
                wrong.append((f"{mapped}= or {name}=", "both"))
            else:
                read = _read(kind, name, value, wrong)
                found = found if read is None else replace(found, **{mapped: read})
        elif lower in _REFUSED:
            unless, why = _REFUSED[lower]
            if str(value).lower() not in unless:
                wrong.append((f"no {name}= ({why})", f"{name}={value!r}"))
        elif lower == "cleansource":
            found = _cleaned(found, str(value), given.get("sourcearchivedir"), wrong, own)
        elif lower == "basepath" and not is_pattern:
            wrong.append(("basePath= beside a path with a pattern alone", f"basePath={value!r}"))
        elif lower != "sourcearchivedir" and value is not None:
            left[name] = _text(value)
    if "sourcearchivedir" in given and "cleansource" not in given:
        wrong.append(('after_done="archive:DIR" in the place of sourceArchiveDir=', "sourceArchiveDir= alone"))
    return replace(found, spark=left), wrong


ValueT = TypeVar("ValueT")


def _own(own: Mapping[str, object], wrong: list[tuple[str, str]]) -> FileOptions:
    options = FileOptions()
    kinds: dict[str, SettingKind[Any]] = {"recursive": FLAG, "max_files": COUNT_FROM_1, "max_bytes": COUNT_FROM_1}
    for name, kind in kinds.items():
        if own.get(name) is not None:
            read = _read(kind, name, own[name], wrong)
            options = options if read is None else replace(options, **{name: read})
    if own.get("pattern") is not None:
        options = replace(options, pattern=str(own["pattern"]))
    if own.get("settle") is not None:
        seconds = _read(DURATION, "settle", own["settle"], wrong)
        options = options if seconds is None else replace(options, settle_seconds=seconds)
    for name, choices in (("lost", LostFiles), ("changed", Changed)):
        value = own.get(name)
        if value is not None:
            known = {each.value: each for each in choices}
            if value in known:
                options = replace(options, **{name: known[str(value)]})
            else:
                wrong.append((f"{name}= one of {', '.join(known)}", repr(value)))
    after = own.get("after_done")
    if after is not None:
        if after in (KEEP, DELETE) or (str(after).startswith(ARCHIVE) and str(after) != ARCHIVE):
            options = replace(options, after_done=str(after))
        else:
            wrong.append((f'after_done= one of "{KEEP}", "{DELETE}" and "{ARCHIVE}DIR"', repr(after)))
    return options


def _read(kind: SettingKind[ValueT], name: str, value: object, wrong: list[tuple[str, str]]) -> ValueT | None:
    try:
        return kind.read(value)
    except ValueError:
        wrong.append((f"{name}= {kind.expected}", repr(value)))
        return None


def _cleaned(
    options: FileOptions, value: str, archive: object, wrong: list[tuple[str, str]], own: Mapping[str, object]
) -> FileOptions:
    if own.get("after_done") is not None:
        wrong.append(("after_done= or cleanSource=", "both"))
        return options
    match value.lower():
        case "off":
            return options
        case "delete":
            return replace(options, after_done=DELETE)
        case "archive" if archive is not None:
            return replace(options, after_done=f"{ARCHIVE}{archive}")
        case "archive":
            wrong.append(("sourceArchiveDir= with cleanSource=archive", "none"))
        case _:
            wrong.append(("cleanSource= one of off, delete, archive", repr(value)))
    return options


def refusals() -> Iterator[tuple[str, str]]:
    """Each option of Spark that is refused, and the reason."""
    for name, (_, why) in _REFUSED.items():
        yield name, why


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_MAPPED: Mapping[str, tuple[str, SettingKind[Any]]] = {
    "maxfilespertrigger": ("max_files", COUNT_FROM_1),
    "maxbytespertrigger": ("max_bytes", COUNT_FROM_1),
    "pathglobfilter": ("pattern", SettingKind("a pattern of file names", str)),
    "recursivefilelookup": ("recursive", FLAG),
}
_OFF = frozenset({"false"})
_NEVER = frozenset[str]()
_REFUSED: Mapping[str, tuple[frozenset[str], str]] = {
    "latestfirst": (_OFF, "files are read by time, then by name"),
    "maxfileage": (_NEVER, "a file is read however old it is"),
    "filenameonly": (_OFF, "a file is known by its path below the source's folder"),
    "modifiedbefore": (_NEVER, "every file is read"),
    "modifiedafter": (_NEVER, "every file is read; an at-most-once job begins at the newest"),
    "ignoremissingfiles": (_OFF, 'a file that is gone is never passed over in silence: lost="skip"'),
    "maxcachedfiles": (_NEVER, "the folder is listed for every epoch"),
    "discardcachedinputratio": (_NEVER, "the folder is listed for every epoch"),
    "path": (_NEVER, "the path is the first argument"),
    "paths": (_NEVER, "a source has one path, which may be a pattern"),
}
