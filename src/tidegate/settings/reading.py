"""Reads the settings of a job from all the places that may set them.

In rising order, over the defaults: the program (`Job("name", checkpointing_interval="1s")`), the file `tidegate.toml`,
the environment (`TIDEGATE_CHECKPOINTING_INTERVAL=1s`), and `-D checkpointing.interval=1s`. In names `.`, `-` and `_`
are the same, and so are capital and small letters; Flink's own keys and values are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.settings.config import SETTINGS, Setting, Settings
from tidegate.settings.flink import FILESYSTEM, STORAGES, answer
from tidegate.settings.given import GivenValue, Missing, Origin, SettingPlace, SettingsFile, everything_given, shown
from tidegate.settings.names import ATTRIBUTES, BARE_NUMBER, folded
from tidegate.settings.rules import violations


def read_settings(
    code: Mapping[str, object],
    environment: Mapping[str, str],
    overrides: Sequence[str] = (),
    *,
    file: SettingsFile | None = None,
    job: str = "",
) -> Settings:
    """Read the settings from all places. `overrides`: texts `key=value`; for the same setting, the last one is used.

    Raises one error that lists every unknown name (SETTING_UNKNOWN), every invalid value (SETTING_VALUE) and every
    violated rule between settings (SETTINGS_CLASH).
    """
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    unread: set[str] = set()
    errors: list[TidegateError] = []
    for given in everything_given(code, file, job, environment, overrides):
        try:
            if _is_checkpoints_in_files(given):
                continue
            attribute, value = _read(given, origins)
        except _Unread as refused:
            errors.append(refused.error)
            unread.update(refused.attributes)
        else:
            values[attribute] = value
    settings = Settings(**values, origins=origins)
    raise_all([*errors, *violations(settings, unread)], "the settings of the job")
    return settings


class _Unread(Exception):
    """A value that was refused, and the settings that it was for."""

    def __init__(self, error: TidegateError, *attributes: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.attributes = attributes


def _read(given: GivenValue, origins: dict[str, Origin]) -> tuple[str, object]:
    """The attribute that is set, and its value. Adds its place to `origins`."""
    attribute = ATTRIBUTES.get(folded(given.key))
    if attribute is None:
        raise _Unread(_unknown(given))
    setting = SETTINGS[attribute]
    before = origins.get(setting.name)
    if before is not None and before.place is given.origin.place is not SettingPlace.OVERRIDE:
        raise _Unread(_given_twice(setting, before, given.origin), attribute)
    origins[setting.name] = given.origin
    try:
        return attribute, _value(setting, given)
    except TidegateError as error:
        raise _Unread(error, attribute) from None


def _value(setting: Setting[Any], given: GivenValue) -> object:
    raw = given.value
    if isinstance(raw, Missing):
        raise _bad_value(setting, given.origin, raw.value)
    if setting.kind.unit_of_flink and folded(given.key) != folded(setting.name) and BARE_NUMBER.fullmatch(str(raw)):
        counted = f"{raw}: a bare number, which Flink counts in {setting.kind.unit_of_flink}"
        raise _bad_value(setting, given.origin, counted, "write the unit")
    try:
        return setting.kind.read(raw)
    except ValueError:
        raise _bad_value(setting, given.origin, shown(repr(raw))) from None


def _is_checkpoints_in_files(given: GivenValue) -> bool:
    """True if Flink's key requests checkpoints in files, which is always the case. Raises for any other storage."""
    if folded(given.key) not in map(folded, STORAGES):
        return False
    if given.value == FILESYSTEM:
        return True
    raise _Unread(
        TidegateError(
            Code.SETTING_VALUE,
            expected=f"{given.key} = {FILESYSTEM}: checkpoints are always files, below checkpointing.dir",
            found=shown(repr(given.value)),
            where=str(given.origin),
            next_step="leave it out: checkpoints in the memory of a process (jobmanager) have no counterpart here",
        )
    )


def _unknown(given: GivenValue) -> TidegateError:
    near = get_close_matches(folded(given.key), ATTRIBUTES, n=1)
    meant = f"did you mean {SETTINGS[ATTRIBUTES[near[0]]].name}?" if near else f"leave it out, or take {_LISTED}"
    return TidegateError(
        Code.SETTING_UNKNOWN,
        expected=_LISTED,
        found=given.key,
        where=str(given.origin),
        next_step=answer(given.key) or meant,
    )


_LISTED = "one of the settings that `tidegate config show` lists"


def _bad_value(setting: Setting[Any], origin: Origin, found: str, next_step: str = "") -> TidegateError:
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"{setting.name} = {setting.kind.expected}",
        found=found,
        where=str(origin),
        next_step=next_step or f"give {origin.name} such a value there, or leave it out: see docs/settings.md",
    )


def _given_twice(setting: Setting[Any], first: Origin, second: Origin) -> TidegateError:
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"one value for {setting.name} in one place",
        found=f"{first.name} and {second.name}",
        where=str(second),
        next_step="leave one of them out",
    )
