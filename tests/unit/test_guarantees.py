"""The guarantee of a sink, end to end: the weakest of source, engine and sink decides."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import tidegate
from tidegate.core.guarantees import EndToEnd, Guarantee, Limit, Rows, Shows, end_to_end, guarantee_of
from tidegate.core.levels import Level
from tidegate.operate.guarantees import GUARANTEES, finding_of, read_guarantees, write_guarantees
from tidegate.storages.opening import open_storage

ORDER = list(Level)


def given(
    sources: dict[str, Rows], shows: Shows, delivery: Level | None = None, mode: Level = Level.EXACTLY_ONCE
) -> Guarantee:
    found = guarantee_of("counts", "table", sources, mode, shows, delivery)
    assert found
    return found


@pytest.mark.parametrize(("rows", "mode", "shows"), [*product(Rows, Level, Shows)])
def test_nothing_is_promised_above_the_mode_and_a_refusal_says_which_error(
    rows: Rows, mode: Level, shows: Shows
) -> None:
    found = end_to_end(rows, mode, shows)
    if found.level is None:
        assert "TG-" in found.why
    else:
        assert ORDER.index(found.level) >= ORDER.index(mode)
        assert (found.limit is Limit.NOTHING) == (found is EndToEnd.EXACT)


def test_a_replayed_source_and_a_sink_that_proves_its_commits_are_exact() -> None:
    found = given({"lines": Rows.REPLAYED}, Shows.ONCE)
    assert (found.level, found.limited_by, found.where) == (Level.EXACTLY_ONCE, Limit.NOTHING, "")


def test_the_weakest_source_counts_and_is_named() -> None:
    found = given({"lines": Rows.REPLAYED, "socket": Rows.LOGGED}, Shows.ONCE)
    assert (found.level, found.limited_by, found.where) == (Level.EXACTLY_ONCE, Limit.SOURCE, "socket")


def test_a_sink_that_may_show_an_epoch_again_is_at_least_once() -> None:
    found = given({"lines": Rows.REPLAYED}, Shows.AGAIN)
    assert (found.level, found.limited_by, found.where) == (Level.AT_LEAST_ONCE, Limit.SINK, "table")


def test_the_engine_limits_by_its_mode_and_a_sink_by_its_delivery() -> None:
    by_mode = given({"lines": Rows.REPLAYED}, Shows.ONCE, mode=Level.AT_LEAST_ONCE)
    assert (by_mode.limited_by, by_mode.where) == (Limit.ENGINE, "checkpointing.mode = at-least-once")
    own = given({"lines": Rows.REPLAYED}, Shows.ONCE, Level.AT_LEAST_ONCE)
    assert (own.level, own.limited_by) == (Level.AT_LEAST_ONCE, Limit.SINK)
    stronger = given({"lines": Rows.REPLAYED}, Shows.ONCE, Level.EXACTLY_ONCE, Level.AT_LEAST_ONCE)
    assert stronger.level is Level.EXACTLY_ONCE


def test_rows_that_are_given_once_are_never_more_than_at_most_once() -> None:
    found = given({"socket": Rows.LIVE}, Shows.ONCE, mode=Level.AT_MOST_ONCE)
    assert (found.level, found.limited_by, found.where) == (Level.AT_MOST_ONCE, Limit.SOURCE, "socket")
    assert guarantee_of("counts", "table", {"socket": Rows.LIVE}, Level.EXACTLY_ONCE, Shows.ONCE) is None


def test_at_most_once_is_for_all_sinks_of_a_job_or_for_none() -> None:
    for mode, own in [(Level.AT_MOST_ONCE, Level.EXACTLY_ONCE), (Level.EXACTLY_ONCE, Level.AT_MOST_ONCE)]:
        assert end_to_end(Rows.REPLAYED, mode, Shows.ONCE, own) is EndToEnd.REFUSED_SINK


def test_a_start_leaves_them_in_the_folder_of_the_job(tmp_path: Path) -> None:
    storage, found = open_storage(tmp_path), given({"lines": Rows.REPLAYED}, Shows.AGAIN)
    assert read_guarantees(storage) == ()
    write_guarantees(storage, [found])
    assert list(read_guarantees(storage)) == [found]
    assert finding_of(found).detail.startswith("at-least-once, limited by the sink (table): ")
    (tmp_path / GUARANTEES).write_bytes(b"no JSON")
    assert read_guarantees(storage) == ()


@pytest.mark.parametrize(
    "name", [each for each in tidegate.__all__ if each.endswith("Sink") and each != "TwoPhaseSink"]
)
def test_each_sink_says_for_itself_what_readers_see(name: str) -> None:
    assert vars(getattr(tidegate, name))["promises"]
