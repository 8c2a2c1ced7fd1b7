"""By setting, the tests that show its effect from outside: files, rows, times, exit codes, never the value read back.

A test is named by its file below `tests/` and its function.
"""

from __future__ import annotations

EFFECT_TESTS: dict[str, tuple[str, ...]] = {
    "checkpointing.dir": ("integration/test_words.py::test_a_second_run_goes_on_where_the_first_one_stopped",),
    "checkpointing.unaligned": (
        "unit/test_settings_rules.py::test_settings_that_do_not_go_together_are_refused_at_once",
    ),
    "checkpointing.aligned_timeout": (
        "unit/test_settings_rules.py::test_settings_that_do_not_go_together_are_refused_at_once",
    ),
}


def table() -> str:
    """The settings with the tests that show their effect."""
    from tidegate.core.config import SETTINGS

    rows = [
        f"| `{setting.name}` | {', '.join(f'`{each}`' for each in EFFECT_TESTS.get(setting.name, ())) or '-'} |"
        for setting in SETTINGS.values()
    ]
    return "\n".join(["| setting | shown by, below `tests/` |", "|---|---|", *rows])
