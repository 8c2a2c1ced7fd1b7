"""The reference of all settings and of the rules between them, as Markdown tables."""

from __future__ import annotations

from tidegate.settings.config import SETTINGS
from tidegate.settings.rules import RULES


def settings_table() -> str:
    """A row for each setting: default, accepted values, meaning, Flink's keys."""
    rows = [
        (
            f"`{setting.name}`",
            f"`{setting.default}`" if setting.default else "not set",
            setting.kind.expected,
            setting.meaning,
            ", ".join(f"`{key}`" for key in setting.flink),
        )
        for setting in SETTINGS.values()
    ]
    return _table(("setting", "default", "takes", "what it does", "in Flink"), rows)


def rules_table() -> str:
    """A row for each rule. Rules with the same text share a row."""
    rows = dict.fromkeys((rule.text, rule.verdict.value) for rule in RULES)
    return _table(("between settings", "otherwise"), list(rows))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
