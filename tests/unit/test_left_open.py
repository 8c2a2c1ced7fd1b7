"""What sinks have left that the program has no more: undecided it goes at the next start, decided it stays."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.killed_job import QUERY, KilledJob
from tests.support.logged import told
from tidegate.checkpoints.job_layout import JOB_RECORD, RESTORES
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import entry
from tidegate.core.levels import Level
from tidegate.core.records import Committable, JobRecord, Restored, SinkIdentity, encode
from tidegate.operate import left_open
from tidegate.operate.left_open import give_up_what_is_left
from tidegate.operate.sinks import DescribedSink, describe
from tidegate.operate.transactions import name_of
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.storages.local.storage import LocalStorage


class Kept(SQLiteSink):
    """Its target holds transactions open, as Kafka does; `aborted` are those that were ended."""

    def __init__(self, uid: str, path: Path, opened: Sequence[Committable] = (), orphans: Sequence[str] = ()) -> None:
        super().__init__(uid, path, table="numbers")
        self.open_by_sink = {uid: [*(name_of(each) for each in opened), *orphans]}
        self.asked: list[SinkIdentity] = []
        self.aborted: list[str] = []

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        self.asked.append(identity)
        return self.open_by_sink.get(identity.sink, [])

    def abort(self, transactions: Sequence[str]) -> None:
        self.aborted += transactions


def staged(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and ".tidegate" in str(path))


def begin_generation_2(job: KilledJob, **renamed: str) -> None:
    """As a restore leaves it, the old generation's folder gone."""
    storage = LocalStorage(job.folder)
    restored = Restored(
        job_id=QUERY.job_id, generation=2, savepoint="/saved", digest="1f", at="then", epochs={}, renamed=renamed
    )
    storage.replace(entry(RESTORES, 2), encode(restored))
    storage.replace(JOB_RECORD, encode(JobRecord(name="job", job_id=QUERY.job_id, generation=2)))


def test_what_a_given_up_generation_has_staged_in_renamed_and_dropped_sinks_goes(tmp_path: Path):
    job = KilledJob(tmp_path)
    job.prepare(0)
    before = staged(tmp_path)
    assert before
    begin_generation_2(job, table="renamed")
    table = SQLiteSink("renamed", tmp_path / "out.db", table="numbers")
    for _ in range(2):  # killed before it has described its own sinks, and once more
        give_up_what_is_left(job.place, {("counts", "renamed"): table}, [described(table)])
        assert staged(tmp_path) == []


def described(sink: SQLiteSink) -> DescribedSink:
    return describe("counts", sink, Level.EXACTLY_ONCE)


def test_what_is_decided_in_a_query_that_the_program_lacks_is_left_for_its_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    job = KilledJob(tmp_path)
    decided, undecided = job.prepare(0), job.prepare(1)
    job.log(0)
    before = staged(tmp_path)
    sink = Kept("table", tmp_path / "out.db", [*decided, *undecided], ["nowhere"])
    monkeypatch.setattr(left_open, "open_sink", lambda each, _: sink if each.uid == "table" else job.files)
    give_up_what_is_left(job.place, {}, [])
    mine = [name_of(each) for each in undecided if each.attempt.sink.sink == "table"]
    assert set(sink.aborted) & {name_of(each) for each in decided} == set()
    assert {*mine, "nowhere"} <= set(sink.aborted)
    assert staged(tmp_path) == before, "of the generation that counts"


def test_where_the_ledger_does_not_tell_what_is_decided_nothing_is_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    job = KilledJob(tmp_path)
    job.prepare(0)
    job.log(0)
    for record in (job.storage.path("ledger/prepared")).iterdir():
        record.unlink()
    sink = Kept("table", tmp_path / "out.db", orphans=["nowhere"])
    monkeypatch.setattr(left_open, "open_sink", lambda *_: sink)
    give_up_what_is_left(job.place, {}, [])
    assert sink.aborted == []


def test_a_job_that_has_moved_asks_a_renamed_sink_for_what_it_holds_under_its_old_name(tmp_path: Path):
    """Its old folder, and the description of its sinks there, are out of reach."""
    job = KilledJob(tmp_path)
    job.storage.path("ledger/start").unlink()
    LocalStorage(job.folder).delete("sinks.json")
    begin_generation_2(job, counts="words", table="renamed")
    sink = Kept("renamed", tmp_path / "out.db")
    sink.open_by_sink = {"table": ["old"], "renamed": ["new"]}
    give_up_what_is_left(job.place, {("words", "renamed"): sink}, [])
    assert sink.aborted == ["old"], "what is open under its own name is for recovery to judge"
    assert [(each.job_id, each.query, each.sink) for each in sink.asked] == [(QUERY.job_id, "counts", "table")]


def test_a_sink_that_is_out_of_reach_for_good_does_not_keep_the_job_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    job = KilledJob(tmp_path)

    def refused(*_: object) -> SQLiteSink:
        raise TidegateError(Code.SINK_UNUSABLE, expected="a cluster", found="none", where="there", next_step="mend it")

    monkeypatch.setattr(left_open, "open_sink", refused)
    with caplog.at_level(logging.WARNING, "tidegate"):
        give_up_what_is_left(job.place, {}, [])
    assert [("sink table" in text, "TG-SINK-UNUSABLE" in text) for text in told(caplog)] == [
        (False, True),
        (True, True),
    ]


def test_a_sink_as_it_was_is_asked_by_nobody_but_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    job = KilledJob(tmp_path)
    monkeypatch.setattr(left_open, "open_sink", lambda *_: pytest.fail("it was opened"))
    now = {("counts", each.uid): each for each in (job.table, job.files)}
    give_up_what_is_left(job.place, now, [describe("counts", each, Level.EXACTLY_ONCE) for each in now.values()])
