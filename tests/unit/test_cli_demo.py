"""The parts of the demo that need no Spark: kills, input, what is read from the sinks, what files show."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.core.failpoints import parse_strikes
from tidegate.testing.checker import Change, InputLine, words_of
from tidegate.testing.demo.ends import FileEnds
from tidegate.testing.demo.feeder import Feeder
from tidegate.testing.demo.footprint import Footprint
from tidegate.testing.demo.places import Places
from tidegate.testing.demo.schedule import POINTS, Phase, plan_kills
from tidegate.testing.demo.text import cut, generated, read_folder

# --- kills -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("crashes", [0, 1, 2, 3, 5, 8, 20])
def test_kills_are_in_different_epochs_and_spare_the_first_and_the_last(seed: int, crashes: int) -> None:
    batches = max(2 * crashes + 2, 26)
    kills = plan_kills(seed, crashes, batches)
    epochs = [kill.epoch for kill in kills]
    assert len(kills) == crashes
    assert epochs == sorted(set(epochs))
    assert all(1 <= epoch <= batches - 2 for epoch in epochs)
    assert kills == plan_kills(seed, crashes, batches)


@pytest.mark.parametrize("seed", range(20))
def test_five_kills_are_in_all_phases_and_fewer_have_the_one_that_repeats_rows(seed: int) -> None:
    assert {kill.phase for kill in plan_kills(seed, 5, 26)} == set(Phase)
    assert {kill.phase for kill in plan_kills(seed, 9, 26)} == set(Phase)
    for crashes in (1, 2, 3, 4):
        phases = [kill.phase for kill in plan_kills(seed, crashes, 26)]
        assert Phase.C in phases
        assert len(set(phases)) == crashes


def test_the_points_of_the_phases_are_failpoints() -> None:
    for points in POINTS.values():
        parse_strikes(",".join(f"{point}=crash" for point in points))


# --- input -------------------------------------------------------------------------------------------------


def test_generated_text_follows_the_seed_and_zipf() -> None:
    texts = generated(2000, seed=3)
    assert texts == generated(2000, seed=3)
    assert texts != generated(2000, seed=4)
    often = [times for _, times in Counter(word for text in texts for word in words_of(text)).most_common()]
    assert often[0] > 1.5 * often[1] > often[9] * 1.5
    assert all(3 <= len(words_of(text)) <= 12 for text in texts)


def test_lines_are_cut_into_batches_that_hold_them_all() -> None:
    batches = cut(["a", "b", "c", "d", "e"], 3)
    assert [line for batch in batches for line in batch] == [InputLine(n, t) for n, t in enumerate("abcde", start=1)]
    assert sorted(map(len, batches)) == [1, 2, 2]


def test_a_folder_of_text(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"three\r\n\xff four")
    (tmp_path / "a.txt").write_text("one\n\ntwo  \n", encoding="utf-8")
    (tmp_path / ".hidden").write_text("no", encoding="utf-8")
    assert read_folder(tmp_path) == ["one", "", "two  ", "three", "\ufffd four"]


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match="no line of text"):
        read_folder(tmp_path)


def test_the_feeder_puts_no_more_than_it_may_in_rising_time(tmp_path: Path) -> None:
    ends = FileEnds(Places(tmp_path))
    feeder = Feeder(ends, [[InputLine(1, "a b")], [InputLine(2, "\u2028 c")], [InputLine(3, "")]])
    with ends.ready():
        while feeder.fed < 2:
            feeder.feed(up_to=2)
        feeder.feed(up_to=2)
    files = sorted(Places(tmp_path).input.iterdir())
    assert [file.name for file in files] == ["00000.json", "00001.json"]
    assert json.loads(files[1].read_text(encoding="utf-8")) == {"number": 2, "text": "\u2028 c"}
    first, second = (int(file.stat().st_mtime * 1000) for file in files)
    assert second > first


def test_two_files_in_one_epoch_are_one_epoch(tmp_path: Path) -> None:
    ends = FileEnds(Places(tmp_path))
    lines = [InputLine(number, "a") for number in range(4)]
    with ends.ready():
        for line in lines:
            ends.put([line])
    positions = ['{"logOffset":0}', '{"logOffset":2}']
    assert [ends.batches_to(position) for position in (None, *positions)] == [0, 1, 3]
    assert ends.epochs(positions) == [lines[:1], lines[1:3], lines[3:]]


# --- output ------------------------------------------------------------------------------------------------


def test_what_a_reader_sees(tmp_path: Path) -> None:
    places = Places(tmp_path)
    places.lines.mkdir(parents=True)
    places.changes.mkdir()
    (places.lines / "part-0.json").write_text('{"number":1,"text":"a\u2028"}\n{"numb', encoding="utf-8")
    (places.lines / "_half.json").write_text("no", encoding="utf-8")
    (places.lines / ".tidegate").mkdir()
    (places.changes / "x.json").write_text('{"word":"a","count":1}\n', encoding="utf-8")
    with closing(sqlite3.connect(places.table)) as table, table:
        table.execute("CREATE TABLE counts(word TEXT, count INTEGER)")
        table.execute("INSERT INTO counts VALUES ('a', 1)")
    sinks = FileEnds(places).read()
    assert sinks.lines == [InputLine(1, "a\u2028"), InputLine(-1, '{"numb')]
    assert sinks.changes == [Change("a", 1)]
    assert sinks.table == {"a": 1}


def test_nothing_written_yet(tmp_path: Path) -> None:
    sinks = FileEnds(Places(tmp_path)).read()
    assert (list(sinks.lines), list(sinks.changes), dict(sinks.table)) == ([], [], {})


# --- what files show ---------------------------------------------------------------------------------------


def test_the_phase_of_an_epoch_by_its_files(tmp_path: Path) -> None:
    query = Footprint("counts", tmp_path / "spark", tmp_path / "ledger", tmp_path / "output")
    staged = "output/changes/.tidegate/f00/g1/counts.changes/e4/r2-abcd-t0-a1.json.staged"
    steps: list[tuple[str, set[Phase]]] = [
        ("ledger/runs/2", set()),
        ("spark/offsets/4", {Phase.A}),
        ("ledger/prepared/4.1", {Phase.A}),  # of an older run
        (staged, {Phase.A, Phase.B}),
        ("ledger/prepared/4.2", {Phase.C}),
        ("spark/commits/4", {Phase.D}),
        ("ledger/decided/4", {Phase.E}),
        ("ledger/done/4", set()),
    ]
    for name, phases in steps:
        assert query.complete() == 0
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        assert query.phases(4) == phases, name
    assert query.complete() == 5
    assert query.epoch_ms.keys() == {4}


def test_an_epoch_that_a_kill_has_cut_has_no_time(tmp_path: Path) -> None:
    query = Footprint("counts", tmp_path, None, tmp_path)
    for name, seconds in (("offsets/0", 100), ("commits/0", 101), ("offsets/1", 102), ("commits/1", 109)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    query.since = 101.5
    assert query.complete() == 2
    assert query.epoch_ms == {1: 7000.0}


def test_a_journal_shows_that_tasks_have_written(tmp_path: Path) -> None:
    query = Footprint("lines", tmp_path / "spark", tmp_path / "ledger", tmp_path / "output")
    for name in ("spark/offsets/4", "ledger/runs/2", "ledger/journal/4/copies.r1-abcd-t0-a0.arrow"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert query.phases(4) == {Phase.A}
    (tmp_path / "ledger/journal/4/copies.r2-abcd-t0-a0.arrow").touch()
    assert query.phases(4) == {Phase.A, Phase.B}


def test_where_epochs_ended_stays_known_when_spark_has_purged_them(tmp_path: Path) -> None:
    query = Footprint("lines", tmp_path, None, tmp_path)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    for epoch in (0, 1):
        text = f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{epoch}}}'
        (tmp_path / "offsets" / str(epoch)).write_text(text)
        (tmp_path / "commits" / str(epoch)).touch()
        assert query.complete() == epoch + 1
    (tmp_path / "offsets" / "0").unlink()
    (tmp_path / "commits" / "0").unlink()
    assert query.complete() == 2
    assert query.positions == {0: '{"logOffset":0}', 1: '{"logOffset":1}'}


def test_the_phase_of_an_epoch_of_plain_spark(tmp_path: Path) -> None:
    query = Footprint("counts", tmp_path, None, tmp_path)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    assert query.phases(0) == set()
    (tmp_path / "offsets" / "0").touch()
    assert query.phases(0) == {Phase.A, Phase.B, Phase.C}
    (tmp_path / "commits" / "0").touch()
    assert query.phases(0) == {Phase.D, Phase.E}
    assert query.complete() == 1
