"""Names of settings: tidegate's and Flink's, and their equal spellings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tidegate.settings.config import SETTINGS


def folded(name: str) -> str:
    """The name in a form that is the same for all its spellings."""
    return re.sub(r"[.-]", "_", name.strip().lower())


ATTRIBUTES: Final[Mapping[str, str]] = {
    folded(name): attribute for attribute, setting in SETTINGS.items() for name in (setting.name, *setting.flink)
}
"""The attribute of each setting, by its folded name and by Flink's folded keys for it."""

BARE_NUMBER: Final = re.compile(r"\d*[1-9]\d*(\.\d+)?|0\.\d*[1-9]\d*")
"""A number above zero without a unit."""
