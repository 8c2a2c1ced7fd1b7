"""The tables about jobs of several queries say what the code decides."""

from __future__ import annotations

import re

import pytest

from tests.house.graph_levels import COMBINATIONS, EVERY, GraphSettings
from tests.house.repository import ROOT
from tidegate.core.errors import Code
from tidegate.core.levels import Level
from tidegate.settings.config import SETTINGS
from tidegate.spark.starting import CHECKPOINTS_APART_SECONDS

BARRIERS = ROOT / "docs" / "explanation" / "barriers.md"


def test_a_job_with_channels_starts_with_three_alignments_of_exactly_once_and_with_one_of_at_least_once() -> None:
    started = [(each.mode, each.unaligned, each.aligned_seconds > 0) for each in EVERY if not each.refused]
    exactly, at_least = Level.EXACTLY_ONCE, Level.AT_LEAST_ONCE
    assert started == [(exactly, False, False), (exactly, True, False), (exactly, True, True), (at_least, False, False)]
    assert {delivery for _, delivery in COMBINATIONS} == {None, exactly, at_least}
    assert len(COMBINATIONS) == len(started) * 3


def test_an_at_most_once_job_has_no_channels_and_others_are_refused_for_their_settings() -> None:
    reasons = {(each.mode, each.refused) for each in EVERY if each.refused}
    by_channel = {mode for mode, reason in reasons if Code.LEVEL_REFUSED.label in reason}
    assert by_channel == {Level.AT_MOST_ONCE}
    assert {reason for mode, reason in reasons if mode is not Level.AT_MOST_ONCE} == {Code.SETTINGS_CLASH.label}


@pytest.mark.parametrize("each", [each for each in EVERY if not each.refused])
def test_only_at_least_once_a_reader_of_several_channels_has_rows_twice(each: GraphSettings) -> None:
    assert not each.repeats(1)
    assert each.repeats(2) == (each.mode is Level.AT_LEAST_ONCE)
    assert each.may_be_in_flight == each.unaligned


def test_the_table_of_what_each_setting_counts_has_every_setting_that_counts_in_a_graph() -> None:
    part = BARRIERS.read_text().partition("## What each setting counts")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(checkpointing\.\w+)` \| (?:.*) \| (.*) \|$", part, re.MULTILINE))
    names = {setting.name for setting in SETTINGS.values()}
    of_times_and_numbers = {"interval", "timeout", "min_pause", "max_concurrent", "retained", "tolerable_failures"}
    assert set(rows) == {f"checkpointing.{each}" for each in of_times_and_numbers} <= names
    assert "at least a second" in rows["checkpointing.interval"]
    assert CHECKPOINTS_APART_SECONDS == 1
