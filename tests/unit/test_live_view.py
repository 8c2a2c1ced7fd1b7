"""How a running job looks in a terminal, from recorded beats."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from tidegate.cli.live_view import SupervisorStage, Watched, duration, live_view
from tidegate.cli.open_view import open_view
from tidegate.cli.view import View, stop_message
from tidegate.operate.beat import Beat, JobState, QueryBeat

START = 1_790_000_000.0
NOW = START + 754


def query(**parts: object) -> QueryBeat:
    given = {
        "uid": "counts",
        "run": 2,
        "epoch": 18,
        "finished": 17,
        "rows": 1200,
        "rows_per_second": 41.26,
        "epoch_ms": 312.4,
        "lag": "1,024 records",
        "last_done_at": NOW - 3,
        "open_transactions": 2,
    }
    return QueryBeat(**{**given, **parts})  # pyright: ignore[reportArgumentType]


def beat(*queries: QueryBeat, **parts: object) -> Beat:
    given = {
        "job": "wordcount",
        "job_id": "1234",
        "state": JobState.RUNNING,
        "host": "here",
        "process": 4711,
        "started_at": START,
        "at": NOW,
        "progress_at": NOW,
        "queries": queries or (query(),),
    }
    return Beat(**{**given, **parts})  # pyright: ignore[reportArgumentType]


def watched(stage: SupervisorStage = SupervisorStage.RUNNING, **parts: object) -> Watched:
    return Watched(**{"stage": stage, "since": START - 2, **parts})  # pyright: ignore[reportArgumentType]


def shown(seen: Beat | None, about: Watched, width: int = 120) -> str:
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    console.print(live_view(seen, about, NOW))
    return console.export_text()


def test_a_running_job_shows_every_figure():
    head, names, figures = shown(beat(), watched()).splitlines()
    assert head == "wordcount  running 12 min 34 s  process 4711"
    assert names.split("  ")[0] == "query"
    for column in ("epoch", "rows/s", "lag", "last checkpoint", "duration", "open transactions"):
        assert column in names
    assert figures.split() == ["counts", "18", "1200", "41.3", "1,024", "records", "3", "s", "ago", "312", "ms", "2"]


def test_each_query_has_a_line():
    text = shown(beat(query(), query(uid="lines", epoch=3, finished=2)), watched())
    assert [line.split()[:2] for line in text.splitlines()[2:]] == [["counts", "18"], ["lines", "3"]]


def test_a_query_that_has_done_nothing_yet_shows_dashes():
    fresh = query(epoch=-1, finished=-1, rows=0, rows_per_second=0.0, epoch_ms=None, lag=None, last_done_at=None)
    assert shown(beat(fresh), watched()).splitlines()[2].split() == ["counts", "-", "0", "0.0", "-", "-", "-", "2"]


def test_a_driver_that_has_not_spoken_yet_is_starting():
    assert shown(None, watched(SupervisorStage.RUNNING, since=NOW - 8)) == "the driver is starting, 8 s\n"


def test_what_an_earlier_driver_left_is_not_taken_for_the_present_one():
    text = shown(beat(at=NOW - 60), watched(SupervisorStage.RUNNING, since=NOW - 4, restarts=1))
    assert text.splitlines()[0] == "wordcount  the driver is starting, 4 s  1 restart"
    assert "no sign of life" not in text
    assert "counts" in text


def test_the_pause_before_a_restart_is_counted_down():
    about = watched(SupervisorStage.RESTARTING, restart_at=NOW + 6.2, why="TG-QUERY-FAILED", restarts=3)
    assert (
        shown(beat(), about)
        .splitlines()[0]
        .startswith("wordcount  starts again in 7 s after TG-QUERY-FAILED  3 restarts")
    )


def test_when_the_pause_is_over_the_beat_tells_whether_the_next_driver_has_begun():
    late = watched(SupervisorStage.RESTARTING, since=NOW - 40, restart_at=NOW - 5)
    assert "the driver is starting, 5 s" in shown(beat(), late)
    assert "running 3 s" in shown(beat(started_at=NOW - 3), late)
    of_one_query = watched(SupervisorStage.RESTARTING, restart_at=NOW - 5)
    assert "running 12 min 34 s" in shown(beat(), of_one_query)


def test_a_driver_that_stands_still_is_told_from_an_epoch_that_takes_long():
    assert "no sign of life for 9 s" in shown(beat(at=NOW - 9), watched())
    assert "no progress for 1 min 30 s" in shown(beat(progress_at=NOW - 90), watched())
    assert "no " not in shown(beat(at=NOW - 2, progress_at=NOW - 20), watched()).splitlines()[0]


def test_a_first_interrupt_is_answered_with_what_is_waited_for():
    assert stop_message(beat()) == "stopping: waits for epoch 18 of counts; Ctrl-C again ends at once"
    assert "epoch 18 of counts and epoch 3 of lines;" in stop_message(
        beat(query(), query(uid="lines", epoch=3, finished=2))
    )
    assert stop_message(beat(query(finished=18))) == "stopping: no epoch is running; Ctrl-C again ends at once"
    assert stop_message(None).startswith("stopping: no epoch")
    assert stop_message(beat()) in shown(beat(), watched(SupervisorStage.STOPPING))


@pytest.mark.parametrize("width", [200, 80, 40, 12, 1])
def test_no_line_is_longer_than_the_terminal(width: int):
    text = shown(beat(query(uid="a" * 64, lag="x" * 90), job="j" * 64), watched(restarts=2), width)
    assert max(map(len, text.splitlines())) <= width


def test_a_name_with_brackets_is_no_markup():
    assert "[bold]x[/]" in shown(beat(query(uid="[bold]x[/]")), watched())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (7260, "2 h 01 min"),
        (90_000, "1 d 01 h"),
    ],
)
def test_spans_of_time(seconds: float, text: str):
    assert duration(seconds) == text


def test_without_a_terminal_there_is_no_view(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    view = open_view()
    assert type(view) is View
    assert view.environment == {}
