"""Converts a Flink configuration into settings of tidegate, and lists the keys that are left out, with the reason.

No value that is left out is shown: it may be a secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tidegate.settings.config import SETTINGS, Settings
from tidegate.settings.flink import ALWAYS_FILES, FILESYSTEM, STORAGES, UNKNOWN, answer
from tidegate.settings.kinds import SettingKind
from tidegate.settings.names import ATTRIBUTES, BARE_NUMBER, folded
from tidegate.settings.rules import RULES, Rule, RuleVerdict


@dataclass(frozen=True, slots=True)
class Taken:
    """One setting: its attribute, Flink's key, and the value as `Settings` has it."""

    attribute: str
    key: str
    value: Any

    @property
    def name(self) -> str:
        return SETTINGS[self.attribute].name

    @property
    def text(self) -> str:
        """The value as a user writes it."""
        return SETTINGS[self.attribute].kind.write(self.value)

    @property
    def toml(self) -> str:
        """The line of the settings file."""
        value = self.text if isinstance(self.value, int) else json.dumps(self.text)
        return f"{self.name} = {value}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One key of Flink's that sets nothing here, and the reason."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class Import:
    """The result for a Flink configuration: settings in the order of their table, and the keys that are left out."""

    taken: tuple[Taken, ...]
    left_out: tuple[LeftOut, ...]

    def toml(self, origin: str) -> str:
        """The text of the settings file. `origin`: the name of Flink's file."""
        head = [f"# Written by `tidegate config import` from {origin}."]
        lines = [f"{each.toml}  # {each.key}" for each in self.taken]
        tail = [f"# left out: {each.key}: {each.why}" for each in self.left_out]
        return "\n".join([*head, *([""] if lines else []), *lines, *([""] if tail else []), *tail, ""])


def import_from_flink(given: Mapping[str, str]) -> Import:
    """`given`: the values of Flink's file by key, as text. A number without a unit counts as Flink counts it."""
    taken: dict[str, Taken] = {}
    left_out: list[LeftOut] = []
    for key, value in sorted(given.items(), key=lambda pair: _precedence(pair[0])):
        attribute = ATTRIBUTES.get(folded(key))
        if attribute is None:
            left_out.append(LeftOut(key, _why(key, value)))
        elif attribute in taken:
            left_out.append(LeftOut(key, f"{taken[attribute].key} sets {taken[attribute].name}, as in Flink"))
        else:
            found = _read(attribute, key, value)
            if isinstance(found, LeftOut):
                left_out.append(found)
            else:
                taken[attribute] = found
    left_out += _against_rules(taken)
    order, lines = list(SETTINGS), list(given)
    return Import(
        tuple(sorted(taken.values(), key=lambda each: order.index(each.attribute))),
        tuple(sorted(left_out, key=lambda each: lines.index(each.key))),
    )


def _precedence(key: str) -> int:
    """Of two keys for one setting Flink uses the newer one, which comes first in the table."""
    attribute = ATTRIBUTES.get(folded(key))
    names = () if attribute is None else tuple(map(folded, SETTINGS[attribute].flink))
    return names.index(folded(key)) if folded(key) in names else len(names)


def _why(key: str, value: str) -> str:
    if folded(key) in map(folded, STORAGES):
        return ALWAYS_FILES.partition(": ")[2] + ("" if value == FILESYSTEM else ", never in the memory of a process")
    told = answer(key) or UNKNOWN
    return told.removeprefix("leave it out: ")


_MEANS_OFF: Final = {"checkpointing_interval": "0 turns checkpoints off in Flink; here they are always on"}
"""Settings for which zero has another meaning in Flink."""


def _read(attribute: str, key: str, value: str) -> Taken | LeftOut:
    kind: SettingKind[Any] = SETTINGS[attribute].kind
    unit = "ms" if kind.unit_of_flink and BARE_NUMBER.fullmatch(value) else ""
    try:
        read = kind.read(f"{value}{unit}")
    except ValueError:
        return LeftOut(key, f"its value does not fit {SETTINGS[attribute].name}, which takes {kind.expected}")
    if not read and attribute in _MEANS_OFF:
        return LeftOut(key, _MEANS_OFF[attribute])
    return Taken(attribute, key, read)


def _against_rules(taken: dict[str, Taken]) -> list[LeftOut]:
    """Remove from `taken` one setting for each rule that refuses the settings together. Returns the removed ones, with
    the reason.
    """
    left_out: list[LeftOut] = []
    for rule in RULES:
        if rule.verdict is RuleVerdict.REFUSED and rule.applies(_settings(taken)):
            dropped = taken.pop(_to_drop(rule, taken))
            left_out.append(LeftOut(dropped.key, f"it does not go with the others; allowed is {rule.text}"))
    return left_out


def _to_drop(rule: Rule, taken: Mapping[str, Taken]) -> str:
    """The setting to leave out so that the rule holds: one of detail (a flag, a number) rather than one that chooses a
    mode.
    """
    own: Sequence[str] = [each for each in reversed(rule.about) if each in taken]
    solving = [each for each in own if not rule.applies(_settings({k: v for k, v in taken.items() if k != each}))]
    details = [each for each in solving if isinstance(taken[each].value, int | float)]
    return [*details, *solving, *own][0]


def _settings(taken: Mapping[str, Taken]) -> Settings:
    return replace(Settings(), **{each.attribute: each.value for each in taken.values()})
