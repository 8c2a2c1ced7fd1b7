"""By setting, the tests that show its effect from outside: files, rows, times, exit codes, never the value read back.

A test is named by its file below `tests/` and its function.
"""

from __future__ import annotations

_APART = ("jobs/test_supervisor.py::test_failures_that_lie_so_far_apart_as_is_set_are_not_counted_together",)
_PAUSES = ("jobs/test_supervisor.py::test_a_driver_that_dies_is_started_after_the_pauses_of_the_strategy",)

EFFECT_TESTS: dict[str, tuple[str, ...]] = {
    "ui.host": ("web/test_serving.py::test_it_listens_on_the_loopback_address_of_ipv6",),
    "ui.port": (
        "web/test_serving.py::test_port_zero_takes_a_free_one_and_the_address_shows_it",
        "web/test_serving.py::test_a_port_of_another_program_is_named_with_the_way_out",
    ),
    "ui.token_file": (
        "web/test_serving.py::test_the_token_file_has_the_token_and_a_new_one_is_made_only_where_somebody_reads_it",
    ),
    "ui.tls_cert": (
        "web/test_serving.py::test_with_a_certificate_it_has_tls_and_other_machines_may_look_with_the_token",
    ),
    "ui.tls_key": ("web/test_serving.py::test_a_certificate_and_a_key_that_do_not_belong_together_are_refused",),
    "ui.proxy": ("web/test_serving.py::test_behind_a_proxy_views_need_the_token_and_its_origin_is_ours",),
    "ui.programs": ("web/test_serving.py::test_a_caller_is_told_what_it_may_do",),
    "checkpointing.dir": ("integration/test_words.py::test_a_second_run_goes_on_where_the_first_one_stopped",),
    "savepoints.dir": ("integration/test_savepoints.py::test_a_running_job_is_saved_and_loses_no_epoch",),
    "checkpointing.retained": (
        "integration/test_settings_effects.py::test_so_many_of_the_newest_checkpoints_have_a_manifest",
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
        "integration/test_socket.py::test_a_durable_word_count_is_killed_and_every_line_that_arrived_counts_once",
    ),
    "lease.timeout": (
        "integration/test_state_backend.py::test_a_start_waits_for_an_old_jvm_as_long_as_the_lease_says",
        "integration/test_lease.py::test_a_job_that_does_nothing_ends_when_another_driver_has_taken_its_lease",
    ),
    "stop_timeout": (
        "integration/test_state_backend.py::test_a_stop_without_a_time_of_its_own_waits_as_long_as_the_setting_says",
    ),
    "checkpointing.mode": (
        "integration/test_levels.py::test_each_start_of_an_at_most_once_job_begins_with_the_newest_input_and_empty_state",
    ),
    "checkpointing.interval": ("integration/test_state_backend.py::test_epochs_begin_no_closer_than_the_interval",),
    "checkpointing.backlog_interval": (
        "integration/test_state_backend.py::test_epochs_with_a_backlog_are_as_long_as_is_set",
    ),
    "warm_up": (
        "unit/test_background_warm_up.py::test_a_job_that_runs_long_enough_makes_it_once_and_says_its_size",
        "unit/test_background_warm_up.py::test_off_makes_none_and_neither_does_an_archive_that_is_there_or_one_of_the_users_own",
    ),
    "checkpointing.unaligned": (
        "integration/test_unaligned_checkpoints.py::test_a_restore_reads_the_rows_in_flight_and_is_exact",
    ),
    "checkpointing.aligned_timeout": (
        "integration/test_unaligned_checkpoints.py::test_a_checkpoint_that_aligns_for_too_long_overtakes_the_rows",
    ),
    "checkpointing.timeout": (
        "integration/test_settings_effects.py::test_an_epoch_that_takes_too_long_is_cancelled_and_comes_again_with_the_same_input",
        "integration/test_settings_effects.py::test_what_an_epoch_had_prepared_when_it_took_too_long_is_aborted",
    ),
    "checkpointing.min_pause": (
        "integration/test_settings_effects.py::test_an_epoch_begins_no_sooner_than_the_pause_after_the_last_commits",
    ),
    "checkpointing.max_concurrent": (
        "integration/test_settings_effects.py::test_so_many_epochs_may_wait_for_their_commits",
        "integration/test_settings_effects.py::test_where_epochs_cannot_overlap_a_start_says_so",
    ),
    "checkpointing.tolerable_failures": (
        "integration/test_settings_effects.py::test_one_failed_epoch_in_a_row_more_than_is_tolerated_fails_the_job",
    ),
    "checkpointing.retention": (
        "integration/test_settings_effects.py::test_a_cancelled_job_keeps_its_checkpoints_and_goes_on",
        "integration/test_settings_effects.py::test_a_cancelled_job_that_deletes_its_checkpoints_begins_anew",
    ),
    "checkpointing.after_tasks_finish": (
        "integration/test_settings_effects.py::test_a_bounded_job_leaves_the_due_epoch_to_the_next_start_where_it_is_told_to",
    ),
    "progress_timeout": ("jobs/test_supervisor.py::test_a_driver_that_stands_still_is_ended_and_started_again",),
    "restart.strategy": (
        "jobs/test_supervisor.py::test_a_driver_that_dies_is_started_as_often_as_the_strategy_says",
        "jobs/test_supervisor.py::test_a_driver_that_dies_is_started_after_the_pauses_of_the_strategy",
    ),
    "restart.standby": (
        "jobs/test_standby.py::test_the_standby_goes_on_when_the_driver_dies_and_the_pause_of_the_strategy_counts",
        "jobs/test_supervised_jobs.py::test_a_standby_takes_over_each_time_and_every_row_is_there_once",
    ),
    "restart.fixed_delay.attempts": _PAUSES,
    "restart.fixed_delay.delay": _PAUSES,
    "restart.failure_rate.max_failures": _PAUSES,
    "restart.failure_rate.interval": _APART,
    "restart.failure_rate.delay": _PAUSES,
    "restart.exponential.initial": _PAUSES,
    "restart.exponential.max": _PAUSES,
    "restart.exponential.multiplier": _PAUSES,
    "restart.exponential.reset": _APART,
    "restart.exponential.jitter": (
        "jobs/test_supervisor.py::test_a_pause_is_longer_or_shorter_by_the_part_that_jitter_says",
    ),
    "restart.exponential.attempts": _PAUSES,
}


def table() -> str:
    """The settings with the tests that show their effect."""
    from tidegate.settings.config import SETTINGS

    rows = [
        f"| `{setting.name}` | {', '.join(f'`{each}`' for each in EFFECT_TESTS.get(setting.name, ())) or '-'} |"
        for setting in SETTINGS.values()
    ]
    return "\n".join(["| setting | shown by, below `tests/` |", "|---|---|", *rows])
