"""Reads a Flink configuration file: `flink-conf.yaml` as Flink reads it, or YAML (`config.yaml`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tidegate.core.errors import Code, TidegateError

LINES = "flink-conf.yaml"
"""The file name that Flink reads line by line. It looks like YAML but is not: values need no quotes."""


def read_flink_file(path: Path) -> dict[str, str]:
    """The values by key, as text. Raises SETTINGS_FILE, without quoting any part of the file: it may be a secret."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _unreadable(path, error.strerror or type(error).__name__) from error
    except UnicodeDecodeError:
        raise _unreadable(path, "no UTF-8") from None
    if path.name == LINES:
        return dict(_lines(text))
    found = _parsed(path, text)
    if not isinstance(found, dict):
        raise _unreadable(path, "no keys and values")
    return {" ".join(key.split()): value for key, value in _flat(found)}  # pyright: ignore[reportUnknownArgumentType]


_COMMENT = re.compile(r"(?:^|\s)#.*")


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Follows Flink's rules (GlobalConfiguration.loadYAMLResource): one `key: value` per line, `#` begins a comment."""
    for line in text.splitlines():
        key, _, value = _COMMENT.sub("", line, count=1).strip().partition(": ")
        if key and value.strip():
            yield key.strip(), value.strip()


def _parsed(path: Path, text: str) -> object:
    try:
        return yaml.load(text, Loader=yaml.BaseLoader)  # every scalar is text: `off` is not False
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise _unreadable(path, f"no YAML{line}") from None
    except yaml.YAMLError:
        raise _unreadable(path, "no YAML") from None


def _flat(found: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Convert nested tables to pairs of a dotted key and a text. The items of a list become one text, as in Flink."""
    match found:
        case dict():
            for name, value in found.items():  # pyright: ignore[reportUnknownVariableType]
                yield from _flat(value, f"{key}.{name}" if key else str(name))  # pyright: ignore[reportUnknownArgumentType]
        case list():
            yield key, ";".join(map(str, found))  # pyright: ignore[reportUnknownArgumentType]
        case str() if key and found:
            yield key, found
        case _:
            return


def _unreadable(path: Path, found: str) -> TidegateError:
    return TidegateError(
        Code.SETTINGS_FILE,
        expected=f"a configuration of Flink's: {LINES}, or a file in YAML such as config.yaml",
        found=found,
        where=str(path),
        next_step="name Flink's configuration: tidegate config import FILE",
    )
