"""Spark's log in a state that a power loss, a full disk or a hand has left it in: nothing is lost, nothing repeated."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.place import Place, Row, error_of, run
from tests.support.logged import events
from tests.support.today import turn
from tidegate import FileSink, Job
from tidegate.core.failpoints import parse_strikes
from tidegate.disk.strikes import STRIKES

Damage = Callable[[Path], object]

BEFORE = {0: [("sand", 1), ("sea", 1)], 1: [("sea", 2)]}
AFTER = {**BEFORE, 2: [("sand", 2), ("wind", 1)]}


def counting_job(place: Place) -> Job:
    job = place.job()
    counts = place.words(job).groupBy("word").count()
    job.query("query", counts, mode="update", sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


def counts_out(place: Place) -> dict[int, list[tuple[str, int]]]:
    def of(row: Row) -> tuple[str, int]:
        return row["word"], row["count"]

    return {epoch: sorted(map(of, rows)) for epoch, rows in place.files().items()}


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A job that has done the epochs 0 and 1 and has a third file to read."""
    place = Place(tmp_path_factory.mktemp("stopped"), spark)
    place.write("sea", "sand")
    place.write("sea")
    run(counting_job(place))
    assert counts_out(place) == BEFORE
    place.write("sand", "wind")
    return place


@pytest.fixture
def copied(stopped: Place, tmp_path: Path) -> Place:
    for name in ("checkpoints", "out"):
        shutil.copytree(stopped.folder / name, tmp_path / name)
    return Place(tmp_path, stopped.spark, stopped.input)


def entry(log: str, epoch: int) -> Callable[[Path], Path]:
    return lambda spark_folder: spark_folder / log / str(epoch)


def remove(*entries: Callable[[Path], Path]) -> Damage:
    def damage(spark_folder: Path) -> None:
        for each in entries:
            path = each(spark_folder)
            path.unlink()
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    return damage


def cut(which: Callable[[Path], Path], *, after_line: int) -> Damage:
    """Only so many lines are left; the checksum beside it stays as it was."""

    def damage(spark_folder: Path) -> None:
        path = which(spark_folder)
        kept = path.read_text().splitlines(keepends=True)[:after_line]
        path.write_text("".join(kept))

    return damage


def leave_over(log: str, epoch: int) -> Damage:
    """An entry from a future that is gone, as after a power loss that took what came before it."""

    def damage(spark_folder: Path) -> None:
        shutil.copy(spark_folder / log / "1", spark_folder / log / str(epoch))

    return damage


def alter(which: Callable[[Path], Path], old: str, new: str) -> Damage:
    def damage(spark_folder: Path) -> None:
        path = which(spark_folder)
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return damage


def tear_source_entry(spark_folder: Path) -> None:
    """What a power loss leaves while epoch 2 is being computed: offsets that name a torn entry of the source's log."""
    source = spark_folder / "sources" / "0"
    (newest,) = source.glob("1-*")
    (source / newest.name.replace("1-", "2-")).write_text(newest.read_text().splitlines()[0] + "\n")
    offsets = (spark_folder / "offsets" / "1").read_text().replace('"logOffset":1', '"logOffset":2')
    (spark_folder / "offsets" / "2").write_text(offsets)


def other_checksums(spark_folder: Path) -> None:
    """The entries are whole; the sums beside them are of something else, and one is cut behind its header."""
    header = b"crc\0\0\0\2\0"
    for log in ("offsets", "commits", "sources/0"):
        (spark_folder / log / ".1.crc").write_bytes(header + bytes(4))
        (spark_folder / log / ".0.crc").write_bytes(header)


DAMAGES: dict[str, Damage] = {
    "the checksums are of something else": other_checksums,
    "the newest commits entry is gone": remove(entry("commits", 1)),
    "all commits entries are gone": remove(entry("commits", 0), entry("commits", 1)),
    "the newest commits entry is empty": cut(entry("commits", 1), after_line=0),
    "the newest commits entry was cut after its version": cut(entry("commits", 1), after_line=1),
    "an older commits entry was cut after its version": cut(entry("commits", 0), after_line=1),
    "the newest offsets entry is gone": remove(entry("offsets", 1)),
    "an older offsets entry is gone": remove(entry("offsets", 0)),
    "the newest offsets entry was cut": cut(entry("offsets", 1), after_line=2),
    "both newest entries are gone": remove(entry("offsets", 1), entry("commits", 1)),
    "an offsets entry is left over": leave_over("offsets", 5),
    "a torn offsets entry is left over": lambda folder: (folder / "offsets" / "2").write_text("v1\n"),
    "the source's next entry is empty": lambda folder: (folder / "sources" / "0" / f"2-{'0' * 16}").write_text(""),
    "the source's next entry is torn and offsets name it": tear_source_entry,
    "the metadata is gone": remove(lambda folder: folder / "metadata"),
    "the metadata is empty": lambda folder: (folder / "metadata").write_text(""),
    "a state id in the commits entry is another one's": lambda folder: shutil.copy(
        folder / "commits" / "0", folder / "commits" / "1"
    ),
}


@turn(2, of=4)
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=[name.replace(" ", "-") for name in DAMAGES])
def test_a_damaged_log_is_put_in_order(copied: Place, damage: Damage):
    damage(copied.query() / "spark")
    status = run(counting_job(copied))
    assert counts_out(copied) == AFTER
    assert (status.queries[0].epochs, status.queries[0].finished) == (1, 2), "only the third file was computed"
    assert copied.log("ledger/done") == copied.log("spark/commits") == copied.log("spark/offsets") == [0, 1, 2]


OF_THE_FIRST_EPOCH = {
    "a draft of its offsets entry": "offsets/.0.1dfa194e-f608-4aed-8fa8-dd1221e6c597.tmp",
    "its offsets entry, torn": "offsets/0",
    "its state, without an offsets entry": "state/0/0/1_1dfa194e-f608-4aed-8fa8-dd1221e6c597.changelog",
}


@pytest.mark.parametrize("left", OF_THE_FIRST_EPOCH.values(), ids=list(OF_THE_FIRST_EPOCH))
def test_what_a_kill_leaves_of_the_first_epoch_keeps_no_job_from_starting(place: Place, left: str):
    """Spark would refuse to begin beside any other file, at every start again."""
    place.write("sea", "sand")
    file = place.query() / "spark" / left
    file.parent.mkdir(parents=True)
    file.write_text("v1\n")
    run(counting_job(place))
    assert counts_out(place) == {0: [("sand", 1), ("sea", 1)]}


def test_the_state_of_what_is_finished_stays_although_no_log_tells_of_it(copied: Place):
    """It is no first epoch's: whoever puts the logs back from a copy finds it."""
    state = copied.query() / "spark" / "state"
    before = sorted(path for path in state.rglob("*") if path.is_file())
    shutil.rmtree(copied.query() / "spark" / "offsets")
    shutil.rmtree(copied.query() / "ledger" / "decided")
    error_of(lambda: run(counting_job(copied)))
    assert sorted(path for path in state.rglob("*") if path.is_file()) == before


def test_a_source_that_goes_back_is_put_aside(copied: Place, caplog: pytest.LogCaptureFixture):
    """An undecided `offsets/2` by which Spark would read the second file a second time."""
    spark_folder = copied.query() / "spark"
    leave_over("offsets", 2)(spark_folder)
    alter(entry("offsets", 2), '"logOffset":1', '"logOffset":0')(spark_folder)
    with caplog.at_level(logging.INFO, "tidegate"):
        run(counting_job(copied))
    aside = {"name": "spark/offsets/2", "kept_as": "spark/offsets/.aside-2-0"}
    assert ("LogSetAside", aside) in events(caplog)
    assert '"logOffset":0' in (spark_folder / "offsets" / ".aside-2-0").read_text()
    assert counts_out(copied) == AFTER


def test_an_undecided_entry_that_goes_on_is_kept(copied: Place):
    """The input of epoch 2 was fixed before the stop; the run that comes computes that input, not a newer one."""
    spark_folder = copied.query() / "spark"
    leave_over("offsets", 2)(spark_folder)
    run(counting_job(copied))
    assert counts_out(copied) == {**BEFORE, 3: [("sand", 2), ("wind", 1)]}, "epoch 2 was told to read nothing"


def test_a_commits_entry_that_nobody_prepared_stops_the_job(copied: Place):
    spark_folder = copied.query() / "spark"
    leave_over("offsets", 2)(spark_folder)
    leave_over("commits", 2)(spark_folder)
    for _ in range(2):
        error = error_of(lambda: run(counting_job(copied)))
        assert (error.code, "epoch 2" in error.where) == ("TG-LEDGER-HOLE", True)
    assert counts_out(copied) == BEFORE


# --- the log of an epoch that Spark has committed and nobody has decided -------------------------------------


def run_into(place: Place, monkeypatch: pytest.MonkeyPatch, failpoint: str) -> None:
    """Run until an error strikes at the failpoint."""
    with monkeypatch.context() as patched:
        patched.setattr(STRIKES, "_strikes", parse_strikes(f"{failpoint}=error"))
        assert error_of(lambda: run(counting_job(place))).code in ("TG-QUERY-FAILED", "TG-EPOCH-FAILED")


def test_an_epoch_that_spark_has_committed_is_decided_and_finished(copied: Place, monkeypatch: pytest.MonkeyPatch):
    run_into(copied, monkeypatch, "decision.before")
    assert (copied.log("spark/commits"), copied.log("ledger/decided")) == ([0, 1, 2], [0, 1])
    assert counts_out(copied) == BEFORE
    status = run(counting_job(copied))
    assert counts_out(copied) == AFTER
    assert status.queries[0].epoch == -1, "nothing was computed again"


@pytest.mark.parametrize("after_line", [0, 1], ids=["emptied", "cut-after-its-version"])
def test_an_epoch_whose_commits_entry_was_torn_runs_again(
    copied: Place, monkeypatch: pytest.MonkeyPatch, after_line: int
):
    run_into(copied, monkeypatch, "decision.before")
    cut(entry("commits", 2), after_line=after_line)(copied.query() / "spark")
    status = run(counting_job(copied))
    assert counts_out(copied) == AFTER
    assert (status.queries[0].epoch, status.queries[0].aborted) == (2, 2)  # the attempts of both tasks


@turn(0, of=3)
@pytest.mark.parametrize("point", ["compute.after", "sync.after", "prepared.after"])
def test_an_epoch_that_failed_before_spark_committed_runs_again(
    copied: Place, monkeypatch: pytest.MonkeyPatch, point: str
):
    run_into(copied, monkeypatch, f"{point}@2")
    assert copied.log("spark/commits") == [0, 1]
    assert counts_out(copied) == BEFORE
    run(counting_job(copied))
    assert counts_out(copied) == AFTER


@turn(0, of=2)
@pytest.mark.parametrize("point", ["commit.before", "commit.after", "done.before", "finished.before"])
def test_a_decided_epoch_is_finished_by_the_next_start(copied: Place, monkeypatch: pytest.MonkeyPatch, point: str):
    run_into(copied, monkeypatch, f"{point}@2")
    assert copied.log("ledger/decided") == [0, 1, 2]
    status = run(counting_job(copied))
    assert counts_out(copied) == AFTER
    assert status.queries[0].epoch == -1, "nothing was computed again"


def test_the_offsets_of_a_decided_epoch_are_those_it_was_computed_with(copied: Place):
    """A hand that changes a decided entry changes nothing: the decision has its bytes."""
    path = copied.query() / "spark" / "offsets" / "1"
    whole = path.read_bytes()
    alter(entry("offsets", 1), '"logOffset":1', '"logOffset":7')(copied.query() / "spark")
    run(counting_job(copied))
    assert path.read_bytes() == whole
    assert counts_out(copied) == AFTER
    assert json.loads(path.read_text().splitlines()[2])["logOffset"] == 1


def test_what_spark_was_writing_when_a_driver_died_is_removed_by_the_next_start(copied: Place):
    spark_folder = copied.query() / "spark"
    written = (".2.0b7c1a52-77de-4b6a-9a54-0c3a3c2f9b11.tmp", ".2_a.zip.5fd0c0de-1f2e-4000-8000-0a1b2c3d4e5f.tmp")
    left = [spark_folder / "offsets" / written[0], spark_folder / "state/0/0" / written[1]]
    for path in left:
        path.write_bytes(b"half")
    run(counting_job(copied))
    assert [path for path in left if path.exists()] == []
    assert counts_out(copied) == AFTER
