"""By setting, the tests that show its effect from outside: files, rows, times, exit codes, never the value read back.

A test is named by its file below `tests/` and its function.
"""

from __future__ import annotations

EFFECT_TESTS: dict[str, tuple[str, ...]] = {
    "checkpointing.dir": ("integration/test_words.py::test_a_second_run_goes_on_where_the_first_one_stopped",),
    "checkpointing.retained": (
        "integration/test_state_backend.py::test_spark_keeps_as_many_epochs_as_are_retained_and_ten_at_least",
    ),
    "state.backend": (
        "integration/test_state_backend.py::test_each_backend_leaves_files_of_its_own_and_counts_alike",
        "crash/test_hashmap.py::test_a_killed_job_with_hashmap_state_goes_on_exactly",
    ),
    "state.changelog": (
        "integration/test_state_backend.py::test_each_backend_leaves_files_of_its_own_and_counts_alike",
    ),
    "state.incremental": (
        "integration/test_state_backend.py::test_an_incremental_snapshot_adds_what_is_new_and_another_one_everything",
    ),
    "parallelism": (
        "integration/test_state_backend.py::test_the_first_epoch_fixes_the_parallelism_and_a_change_is_said",
    ),
    "lease.timeout": (
        "integration/test_state_backend.py::test_a_start_waits_for_an_old_jvm_as_long_as_the_lease_says",
    ),
    "stop_timeout": (
        "integration/test_state_backend.py::test_a_stop_without_a_time_of_its_own_waits_as_long_as_the_setting_says",
    ),
    "checkpointing.mode": (
        "integration/test_levels.py::test_each_start_of_an_at_most_once_job_begins_with_the_newest_input_and_empty_state",
    ),
    "checkpointing.interval": ("integration/test_state_backend.py::test_epochs_begin_no_closer_than_the_interval",),
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
