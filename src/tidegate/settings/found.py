"""The settings of a job from every place that may set them, with the file, which the core cannot read."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.settings.config import Settings
from tidegate.settings.given import CONFIG_VARIABLE, SettingsFile
from tidegate.settings.reading import read_settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]

FILE = "tidegate.toml"
"""Read from the current folder, unless TIDEGATE_CONFIG names another file."""


def load_settings(
    code: Mapping[str, object],
    *,
    job: str = "",
    environment: Mapping[str, str] = os.environ,
    overrides: Sequence[str] = (),
) -> Settings:
    """The settings of a job, or of no particular job. Raises one error that lists all problems."""
    return read_settings(code, environment, overrides, file=read_settings_file(environment), job=job)


def read_settings_file(environment: Mapping[str, str]) -> SettingsFile | None:
    """The settings file; None if there is none. Raises if a named file is missing."""
    named = environment.get(CONFIG_VARIABLE)
    if named == "":
        return None
    path = Path(named or FILE)
    try:
        return SettingsFile(str(path), _parse(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        if named is None:
            return None
        raise _unreadable(path, "no such file") from error
    except OSError as error:
        raise _unreadable(path, error.strerror or type(error).__name__) from error
    except ValueError as error:  # no TOML, no UTF-8, or a path with a NUL character
        raise _unreadable(path, str(error)) from error


def _parse(text: str) -> Mapping[str, object]:
    return tomllib.loads(text)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _unreadable(path: Path, found: str) -> TidegateError:
    return TidegateError(
        Code.SETTINGS_FILE,
        expected="a file in TOML, in UTF-8",
        found=found,
        where=str(path),
        next_step=f"fix the file, or name another one in {CONFIG_VARIABLE} (empty: none)",
    )
