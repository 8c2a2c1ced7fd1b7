"""The values from all places that may set a setting, in rising order, and their display."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed

OVERRIDES_VARIABLE = "TIDEGATE_OVERRIDES"
"""The `-D` options of the command that started the program: a JSON list of texts `key=value`."""

CONFIG_VARIABLE = "TIDEGATE_CONFIG"
"""The path of the settings file; empty: none is read."""

PAGE_VARIABLE = "TIDEGATE_UI_SHOWN"
"""Set by `tidegate run --ui` for its program: the page of the supervisor shows the job, and outlives each driver."""

_ENVIRONMENT_PREFIX = "TIDEGATE_"
NOT_SETTINGS = frozenset(
    {
        OVERRIDES_VARIABLE,
        CONFIG_VARIABLE,
        "TIDEGATE_SUPERVISED",
        "TIDEGATE_HEAD_START",
        "TIDEGATE_STANDBY",
        "TIDEGATE_TOLD",
        "TIDEGATE_LOG_FORMAT",
        "TIDEGATE_LOG_LEVEL",
        "TIDEGATE_VERBOSE",
        "TIDEGATE_WORKER_IMPORTS",
        "TIDEGATE_PLACE",
        "TIDEGATE_TESTING",
        "TIDEGATE_FAILPOINTS",
        "TIDEGATE_STRIKES",
        "TIDEGATE_SEED",
        "TIDEGATE_CHECK_ONLY",
        "TIDEGATE_CHECK_WORD",
        "TIDEGATE_ALLOW_CHANGED_OPERATORS",
        "TIDEGATE_RESTORE",
        "TIDEGATE_FRESH",
        "TIDEGATE_UI_TOKEN",
        PAGE_VARIABLE,
    }
)
"""Environment variables that look like a setting and are not one."""

_JOBS_TABLE = "job"


class SettingPlace(Enum):
    """The places of a value, in rising order."""

    CODE = "program"
    FILE = "file"
    JOB_TABLE = "file, for this job"
    ENVIRONMENT = "environment"
    OVERRIDE = "-D"


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that set a value, and the name used there; `file` is the path of a settings file."""

    place: SettingPlace
    name: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.file or self.place.value}: {self.name}"


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file as TOML has it: nested tables, and the tables `[job.NAME]`."""

    path: str
    tables: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class GivenValue:
    """One value of one place, under the name of a setting or a key of Flink's."""

    origin: Origin
    key: str
    value: object


class Missing(Enum):
    """Stands for the value of an override without `=`."""

    VALUE = "no `=value` after the name"


def everything_given(
    code: Mapping[str, object],
    file: SettingsFile | None,
    job: str,
    environment: Mapping[str, str],
    overrides: Sequence[str],
) -> Iterator[GivenValue]:
    """Yield every value that was set in any place. A later value overrides an earlier one of the same setting.

    Raises if TIDEGATE_OVERRIDES is not a list.
    """
    for name, value in code.items():
        yield GivenValue(Origin(SettingPlace.CODE, name), name, value)
    if file is not None:
        yield from _in_file(file, job)
    for name, value in environment.items():
        if name.startswith(_ENVIRONMENT_PREFIX) and name not in NOT_SETTINGS:
            yield GivenValue(Origin(SettingPlace.ENVIRONMENT, name), name.removeprefix(_ENVIRONMENT_PREFIX), value)
    for override in (*handed_on(environment), *overrides):
        name, equals, value = override.partition("=")
        yield GivenValue(Origin(SettingPlace.OVERRIDE, name), name, value if equals else Missing.VALUE)


def shown(text: str) -> str:
    """The text of a value for display: without the name and password in a URL."""
    return _LOGIN.sub("://***@", text)


_LOGIN = re.compile(r"://[^/@\s]*@")


def _in_file(file: SettingsFile, job: str) -> Iterator[GivenValue]:
    jobs = file.tables.get(_JOBS_TABLE)
    common = {name: value for name, value in file.tables.items() if name != _JOBS_TABLE}
    for key, value in _flat(common):
        yield GivenValue(Origin(SettingPlace.FILE, key, file.path), key, value)
    if jobs is not None and not isinstance(jobs, dict):
        yield GivenValue(Origin(SettingPlace.FILE, _JOBS_TABLE, file.path), _JOBS_TABLE, jobs)
        return
    own = cast("dict[str, object]", jobs or {}).get(job, {})
    named = f"{_JOBS_TABLE}.{job}"
    if not isinstance(own, dict):
        yield GivenValue(Origin(SettingPlace.FILE, named, file.path), named, own)
        return
    for key, value in _flat(cast("dict[str, object]", own)):
        yield GivenValue(Origin(SettingPlace.JOB_TABLE, f"{named}.{key}", file.path), key, value)


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Nested tables as dotted keys."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def handed_on(environment: Mapping[str, str]) -> list[str]:
    """The `-D` texts `key=value` that the starting command passes on to this program."""
    text = environment.get(OVERRIDES_VARIABLE, "")
    if not text:
        return []
    try:
        return parsed(text, list[str])
    except Unreadable:
        raise TidegateError(
            Code.SETTING_VALUE,
            expected='a JSON list of texts `key=value`, such as ["checkpointing.interval=1s"]',
            found=f"{len(text)} characters that are none",
            where=f"environment: {OVERRIDES_VARIABLE}",
            next_step="unset the variable and use `tidegate run -D`, or fix its value",
        ) from None
