"""Selects the files of a source: a root folder, Hadoop patterns below it, and names that are always skipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

Pattern = Sequence[re.Pattern[str]]
"""One expression for each folder on the way, the last one for a file or a folder of files."""

_SPECIAL = frozenset("*?[{\\")
_EVERYTHING = re.compile(".*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The selection of files below a root folder.

    `patterns`: Hadoop patterns for the path below the root, one for each level; empty: the root itself. `names`: a
    pattern for the name of a file. `recursive`: read all subfolders, and not only those named `column=value`.
    """

    patterns: tuple[Pattern, ...] = ()
    names: re.Pattern[str] = field(default=_EVERYTHING)
    recursive: bool = False

    def leaves_out(self, name: str) -> bool:
        """True for names that Spark skips too: hidden names, names with `_` in front that are not `column=value`, and
        unfinished copies.
        """
        return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")

    def goes_into(self, folder: str) -> bool:
        """An empty name, as in a key `a//b` of S3, is no folder for Hadoop."""
        return self.recursive or "=" in folder or not folder

    def takes(self, name: str) -> bool:
        return not self.leaves_out(name) and self.names.fullmatch(name) is not None

    def selects(self, path: str) -> bool:
        """True if the source reads the file with this path below the root."""
        *folders, name = path.split("/")
        return self.takes(name) and any(
            len(folders) + 1 >= len(pattern)
            and _match(pattern, [*folders, name])
            and self._reads(folders[len(pattern) :])
            for pattern in self.patterns or ((),)
        )

    def enters(self, folder: str) -> bool:
        """True if the source may read files below the folder with this path below the root."""
        folders = folder.split("/")
        return any(
            _match(pattern, folders) and self._reads(folders[len(pattern) :]) for pattern in self.patterns or ((),)
        )

    def _reads(self, folders: Sequence[str]) -> bool:
        return all(not self.leaves_out(folder) and self.goes_into(folder) for folder in folders)


def _match(pattern: Pattern, names: Sequence[str]) -> bool:
    """True if the names match the pattern, level by level, as far as both go."""
    return all(each.fullmatch(name) for each, name in zip(pattern, names, strict=False))


def split(path: str) -> tuple[str, tuple[Pattern, ...]]:
    """Split a path into the folder above its first pattern, and the patterns below that folder.

    Raises ValueError if a brace or a bracket is not closed.
    """
    names = path.split("/")
    first = next((number for number, name in enumerate(names) if _SPECIAL & set(name)), None)
    if first is None:
        return path, ()
    root = "/".join(names[:first]) or "/"
    below = "/".join(names[first:])
    return root, tuple(tuple(expression(name) for name in each.split("/") if name) for each in _spread(below))


def expression(glob: str) -> re.Pattern[str]:
    """The regular expression for a Hadoop pattern of one name: `*`, `?`, `[a-z]`, `[^a-z]`, `{a,b}`, and `\\` as an
    escape.
    """
    found = list(_spread(glob))
    return re.compile("|".join(_translated(each) for each in found), re.DOTALL)


def _spread(glob: str) -> Iterator[str]:
    """Expand the braces in a pattern: `a{b,c}` gives `ab` and `ac`."""
    begin = _first(glob, "{", 0)
    if begin < 0:
        yield glob
        return
    parts, end = _choices(glob, begin)
    for part in parts:
        yield from _spread(glob[:begin] + part + glob[end:])


def _first(glob: str, sign: str, begin: int) -> int:
    index = begin
    while index < len(glob):
        if glob[index] == "\\":
            index += 2
            continue
        if glob[index] == sign:
            return index
        index += 1
    return -1


def _choices(glob: str, begin: int) -> tuple[list[str], int]:
    parts, depth, part, index = list[str](), 0, "", begin + 1
    while index < len(glob):
        sign = glob[index]
        if sign == "\\":
            part += glob[index : index + 2]
            index += 2
            continue
        if sign == "}" and depth == 0:
            return [*parts, part], index + 1
        if sign == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            depth += (sign == "{") - (sign == "}")
            part += sign
        index += 1
    raise ValueError(f"a brace that does not close in {glob!r}")


def _translated(glob: str) -> str:
    found, index = "", 0
    while index < len(glob):
        sign = glob[index]
        index += 1
        match sign:
            case "*":
                found += "[^/]*"
            case "?":
                found += "[^/]"
            case "\\":
                found += re.escape(glob[index : index + 1])
                index += 1
            case "[":
                end = glob.find("]", index + 1)
                if end < 0:
                    raise ValueError(f"a bracket that does not close in {glob!r}")
                inside = glob[index:end].replace("\\", "\\\\")
                found += f"[^{inside[1:]}]" if inside[:1] in ("^", "!") else f"[{inside}]"
                index = end + 1
            case _:
                found += re.escape(sign)
    return found
