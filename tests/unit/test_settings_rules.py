"""Rules between settings: all that are broken in one error, and what is only said."""

from __future__ import annotations

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.settings.config import SETTINGS
from tidegate.settings.reading import read_settings
from tidegate.settings.rules import RULES, RuleVerdict, notes

BROKEN = {
    "unaligned, not exactly-once": (["checkpointing.unaligned=true", "checkpointing.mode=at-least-once"], 1),
    "unaligned, two at once": (["checkpointing.unaligned=true", "checkpointing.max_concurrent=2"], 1),
    "aligned timeout alone": (["checkpointing.aligned_timeout=1s"], 1),
    "shorter epochs with a backlog": (["checkpointing.interval=1min", "checkpointing.backlog_interval=1s"], 1),
    "no time at all": (["checkpointing.timeout=0"], 1),
    "hashmap without its deltas": (["state.backend=hashmap", "state.changelog=false", "state.incremental=false"], 2),
    "a first pause above the longest": (["restart.exponential.initial=2min"], 1),
    "a standby at at-most-once": (["restart.standby=true", "checkpointing.mode=at-most-once"], 1),
    "several": (
        [
            "checkpointing.unaligned=true",
            "checkpointing.max_concurrent=3",
            "checkpointing.min_pause=1s",
            "checkpointing.mode=at-most-once",
        ],
        2,
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_settings_that_do_not_go_together_are_refused_at_once(case: str) -> None:
    overrides, count = BROKEN[case]
    with pytest.raises(TidegateError) as caught:
        read_settings({}, {}, overrides)
    error = caught.value
    clashes = error.violations or (error,)
    assert [each.code for each in clashes] == [Code.SETTINGS_CLASH.label] * count
    for each in clashes:
        assert " = " in each.found
        assert "-D: " in each.where
        assert each.next_step


ALLOWED = {
    "unaligned as it should be": ["checkpointing.unaligned=true", "checkpointing.aligned_timeout=1s"],
    "a pause alone": ["checkpointing.min_pause=1s"],
    "hashmap, which writes what has changed": ["state.backend=hashmap", "state.changelog=true"],
    "a first pause of a strategy that is not chosen": ["restart.exponential.initial=2min", "restart.strategy=none"],
}


@pytest.mark.parametrize("case", ALLOWED)
def test_settings_that_go_together(case: str) -> None:
    read_settings({}, {}, ALLOWED[case])


def test_a_value_that_nobody_could_read_breaks_no_rule_as_well() -> None:
    with pytest.raises(TidegateError) as caught:
        read_settings({}, {}, ["checkpointing.aligned_timeout=1s", "checkpointing.unaligned=yes"])
    assert caught.value.code == Code.SETTING_VALUE.label
    assert caught.value.violations == ()


SAID = {
    "an interval above the timeout": (["checkpointing.interval=1h"], "checkpointing.timeout = 10min"),
    "long epochs of a backlog": (["checkpointing.backlog_interval=1h"], "checkpointing.timeout = 10min"),
    "a pause and two at once": (
        ["checkpointing.min_pause=1s", "checkpointing.max_concurrent=2"],
        "checkpointing.max_concurrent is 1",
    ),
    "barriers": (["checkpointing.unaligned=true"], "several queries joined by channels"),
    "hashmap": (["state.backend=hashmap"], "transformWithState"),
    "failed epochs at at-most-once": (
        ["checkpointing.tolerable_failures=3", "checkpointing.mode=at-most-once"],
        "Only `tidegate run` makes it",
    ),
    "a parameter of another strategy": (["restart.fixed_delay.attempts=3"], "restart.fixed_delay.attempts = 3"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_does_not_do_what_it_seems_to_is_said(case: str) -> None:
    overrides, words = SAID[case]
    (note,) = notes(read_settings({}, {}, overrides))
    assert words in note


def test_where_a_failed_epoch_is_tolerated_by_a_new_process_a_start_says_who_makes_it() -> None:
    overrides = ["checkpointing.tolerable_failures=10", "state.backend=hashmap"]
    (note, _) = sorted(notes(read_settings({}, {}, overrides)), key=lambda each: "transformWithState" in each)
    assert "only `tidegate run` makes" in note
    assert "checkpointing.tolerable_failures = 10, state.backend = hashmap" in note


def test_nothing_is_said_of_the_defaults_or_of_what_is_chosen() -> None:
    assert notes(read_settings({}, {})) == []
    assert notes(read_settings({}, {}, ["restart.strategy=fixed-delay", "restart.fixed_delay.attempts=3"])) == []


@pytest.mark.parametrize(("pause", "at_once"), [("0", 3), ("1ms", 1)])
def test_a_pause_makes_it_one_epoch_at_a_time(pause: str, at_once: int) -> None:
    overrides = ["checkpointing.max_concurrent=3", f"checkpointing.min_pause={pause}"]
    assert read_settings({}, {}, overrides).max_concurrent == at_once


def test_every_parameter_of_a_strategy_has_its_rule() -> None:
    said = {each for rule in RULES if rule.verdict is RuleVerdict.SAID for each in rule.about}
    assert {name for name in SETTINGS if SETTINGS[name].name.count(".") == 2 and "restart" in name} <= said


def test_every_setting_is_described_with_its_value_and_who_set_it() -> None:
    settings = read_settings({"state_incremental": False}, {}, ["checkpointing.interval=1.5s"])
    rows = {row.name: (row.value, row.origin) for row in settings.describe()}
    assert list(rows) == [setting.name for setting in SETTINGS.values()]
    assert rows["checkpointing.interval"] == ("1500ms", "-D: checkpointing.interval")
    assert rows["checkpointing.timeout"] == ("10min", "default")
    assert rows["state.incremental"] == ("false", "program: state_incremental")
    assert rows["parallelism"] == ("", "default")
    assert rows["restart.exponential.multiplier"] == ("1.5", "default")


def test_what_is_described_means_the_same_when_it_is_read_again() -> None:
    settings = read_settings({}, {}, ["checkpointing.interval=90s", "stop_timeout=0.25", "lease.timeout=36h"])
    again = read_settings({}, {}, [f"{row.name}={row.value}" for row in settings.describe()])
    assert [row.value for row in again.describe()] == [row.value for row in settings.describe()]
    assert (again.checkpointing_interval, again.stop_timeout, again.lease_timeout) == (90.0, 0.25, 129600.0)
