"""Reads the settings of a job from all the places that may set them.

In rising order, over the defaults: the program (`Job("name", checkpointing_interval="1s")`), the file `tidegate.toml`,
the environment (`TIDEGATE_CHECKPOINTING_INTERVAL=1s`), and `-D checkpointing.interval=1s`. In names `.`, `-` and `_`
are the same, and so are capital and small letters; Flink's own keys and values are known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.settings.config import SETTINGS, Setting, Settings
from tidegate.settings.given import Given, Missing, Origin, Place, SettingsFile, everything_given, shown
from tidegate.settings.rules import violations


def read_settings(
    code: Mapping[str, object],
    environment: Mapping[str, str],
    overrides: Sequence[str] = (),
    *,
    file: SettingsFile | None = None,
    job: str = "",
) -> Settings:
    """Read all places. `overrides` are texts `key=value`; of two for one setting the later wins.

    Raises one error that lists every unknown name (SETTING_UNKNOWN), every bad value (SETTING_VALUE) and every rule
    between settings that is broken (SETTINGS_CLASH).
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


_BARE_NUMBER = re.compile(r"\d*[1-9]\d*(\.\d+)?|0\.\d*[1-9]\d*")


def _folded(name: str) -> str:
    """A name with everything made equal that counts as equal."""
    return re.sub(r"[.-]", "_", name.strip().lower())


_ATTRIBUTES: dict[str, str] = {
    _folded(name): attribute for attribute, setting in SETTINGS.items() for name in (setting.name, *setting.flink)
}

_FROM_SAVEPOINT = "name the savepoint for the one start that is to go on from it: tidegate run -s PATH"

_ANSWERS_TO_FLINK = {
    "execution.state-recovery.path": _FROM_SAVEPOINT,
    "execution.savepoint.path": _FROM_SAVEPOINT,
    "execution.state-recovery.ignore-unclaimed-state": "tidegate run -s PATH --allow-non-restored-state",
    "execution.savepoint.ignore-unclaimed-state": "tidegate run -s PATH --allow-non-restored-state",
    "execution.state-recovery.claim-mode": "tidegate run -s PATH --claim; without it a savepoint is only read",
    "execution.savepoint-restore-mode": "tidegate run -s PATH --claim; without it a savepoint is only read",
    "execution.checkpointing.create-subdir": "leave it out: a job always has a folder of its own in checkpointing.dir",
    "execution.checkpointing.unaligned.forced": "leave it out: a job has no loops",
    "execution.checkpointing.interval-during-backlog": "leave it out: with a backlog epochs are sized to the interval",
    "state.backend.local-recovery": "leave it out: state is restored from checkpointing.dir",
    "execution.state-recovery.from-local": "leave it out: state is restored from checkpointing.dir",
    "pipeline.max-parallelism": "leave it out: parallelism itself is fixed by the first epoch",
}
"""Flink's keys that have no setting here, and what to do."""

_STORAGES_OF_FLINK = {"execution_checkpointing_storage", "state_checkpoint_storage"}
"""Flink's keys for the place of checkpoints, folded. Checkpoints are always files here: `filesystem` sets nothing."""


class _Unread(Exception):
    """A value that was refused, and the settings that it was for."""

    def __init__(self, error: TidegateError, *attributes: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.attributes = attributes


def _read(given: Given, origins: dict[str, Origin]) -> tuple[str, object]:
    """The attribute that is set, and its value; `origins` hears of it."""
    attribute = _ATTRIBUTES.get(_folded(given.key))
    if attribute is None:
        raise _Unread(_unknown(given))
    setting = SETTINGS[attribute]
    before = origins.get(setting.name)
    if before is not None and before.place is given.origin.place is not Place.OVERRIDE:
        raise _Unread(_given_twice(setting, before, given.origin), attribute)
    origins[setting.name] = given.origin
    try:
        return attribute, _value(setting, given)
    except TidegateError as error:
        raise _Unread(error, attribute) from None


def _value(setting: Setting[Any], given: Given) -> object:
    raw = given.value
    if isinstance(raw, Missing):
        raise _bad_value(setting, given.origin, raw.value)
    if setting.kind.unit_of_flink and _folded(given.key) != _folded(setting.name) and _BARE_NUMBER.fullmatch(str(raw)):
        counted = f"{raw}: a bare number, which Flink counts in {setting.kind.unit_of_flink}"
        raise _bad_value(setting, given.origin, counted, "write the unit")
    try:
        return setting.kind.read(raw)
    except ValueError:
        raise _bad_value(setting, given.origin, shown(repr(raw))) from None


def _is_checkpoints_in_files(given: Given) -> bool:
    """Whether Flink's key asks for checkpoints in files, which is always so. Raises for any other storage."""
    if _folded(given.key) not in _STORAGES_OF_FLINK:
        return False
    if given.value == "filesystem":
        return True
    raise _Unread(
        TidegateError(
            Code.SETTING_VALUE,
            expected=f"{given.key} = filesystem: checkpoints are always files, below checkpointing.dir",
            found=shown(repr(given.value)),
            where=str(given.origin),
            next_step="leave it out: checkpoints in the memory of a process (jobmanager) have no counterpart here",
        )
    )


def _unknown(given: Given) -> TidegateError:
    answers = {_folded(key): answer for key, answer in _ANSWERS_TO_FLINK.items()}
    near = get_close_matches(_folded(given.key), _ATTRIBUTES, n=1)
    meant = f"did you mean {SETTINGS[_ATTRIBUTES[near[0]]].name}?" if near else f"leave it out, or take {_LISTED}"
    return TidegateError(
        Code.SETTING_UNKNOWN,
        expected=_LISTED,
        found=given.key,
        where=str(given.origin),
        next_step=answers.get(_folded(given.key), meant),
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
