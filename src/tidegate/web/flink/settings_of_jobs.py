"""The settings of a job as its newest driver has reported them."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.operate import Beat
from tidegate.settings.config import SETTINGS
from tidegate.settings.kinds import SettingKind, ValueT

_DEFAULTS: Mapping[str, str] = {each.name: each.default for each in SETTINGS.values()}


def reported(beat: Beat | None, name: str, kind: SettingKind[ValueT]) -> ValueT:
    """The value of a setting; its default if the job has not reported it, or not in a way that this release reads."""
    default = _DEFAULTS[name]
    text = next((each.value for each in beat.settings if each.name == name), default) if beat else default
    try:
        return kind.read(text)
    except ValueError:
        return kind.read(default)


def set_values(beat: Beat | None) -> dict[str, str]:
    """The settings that are not defaults. A secret is hidden."""
    return {} if beat is None else {each.name: each.value for each in beat.settings if each.origin != "default"}
