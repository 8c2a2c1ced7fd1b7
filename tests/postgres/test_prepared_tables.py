"""PostgreSQL by prepared transactions: what starts and tasks refuse, whose a transaction is, what is old."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.postgres.prepared_place import ROWS, PreparedPlace, task_of
from tests.support.postgres import DATABASE, PostgresServer, end_prepared, quoted
from tests.support.staged import outcome, plan
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Attempt, Evidence, Outcome, SinkIdentity
from tidegate.operate.sinks import describe, open_sink
from tidegate.operate.transactions import name_of
from tidegate.sinks.postgres.names import BYTES_AT_MOST, PreparedName
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from


@pytest.fixture
def place(preparing: PostgresServer) -> Iterator[PreparedPlace]:
    yield PreparedPlace(preparing, preparing.schema())
    end_prepared(preparing)


# --- what a start refuses ----------------------------------------------------------------------------------------


def test_a_start_demands_room_for_each_task(place: PreparedPlace, postgres: PostgresServer) -> None:
    """What others have prepared takes room, and what this sink has left does not: the start ends it."""
    (violation,) = PreparedPlace(postgres, postgres.schema()).sink().check(plan(SCHEMA))
    assert (violation.expected[:8], violation.found) == ("room for", "max_prepared_transactions = 0")
    assert "'staged'" in violation.next_step
    sink = place.opened()
    task_of(sink)
    wide = dataclasses.replace(plan(SCHEMA), tasks=64)
    assert sink.check(wide) == []
    place.make("CREATE TABLE @.other (n int)")
    prepared_by_hand(place, "INSERT INTO @.other VALUES (1)", "one of another program")
    (violation,) = sink.check(wide)
    assert "64 prepared transactions" in violation.expected
    assert violation.found == "max_prepared_transactions = 64, of which others use 1"


def prepared_by_hand(place: PreparedPlace, statement: str, gid: str, **settings: Any) -> None:
    quoted_schema = quoted(place.schema)
    place.server.execute(f"BEGIN; {statement.replace('@', quoted_schema)}; PREPARE TRANSACTION '{gid}'", **settings)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        pytest.param(
            "ALTER TABLE @.t ENABLE ROW LEVEL SECURITY; ALTER TABLE @.t FORCE ROW LEVEL SECURITY",
            "row security",
            id="row security",
        ),
        pytest.param("CREATE RULE r AS ON INSERT TO @.t DO ALSO NOTIFY heard", "rules", id="rules"),
    ],
)
def test_tables_into_which_copy_does_not_write_as_insert_does_are_refused(
    place: PreparedPlace, made: str, told: str
) -> None:
    place.make(f"CREATE TABLE @.t (id bigint, word text); {made}")
    user = f"writer of {place.schema}"
    place.make(f"CREATE ROLE {quoted(user)} LOGIN PASSWORD 'writer'")
    place.make(f"GRANT ALL ON SCHEMA @ TO {quoted(user)}; GRANT ALL ON @.t TO {quoted(user)}")
    login = {"user": user, "password": "writer"}
    (violation,) = place.sink(options=login).check(plan(SCHEMA))
    assert told in violation.found
    assert place.sink(options=login, protocol="staged").check(plan(SCHEMA)) == []


@pytest.mark.parametrize(
    "does",
    ["CREATE TEMP TABLE IF NOT EXISTS scratch (n int)", "NOTIFY heard"],
)
def test_a_trigger_with_which_nothing_can_be_prepared_fails_the_task(place: PreparedPlace, does: str) -> None:
    place.make("CREATE TABLE @.t (id bigint, word text)")
    place.make(
        f"CREATE FUNCTION @.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {does}; RETURN NEW; END $$;"
        " CREATE TRIGGER f BEFORE INSERT ON @.t FOR EACH ROW EXECUTE FUNCTION @.f()"
    )
    with pytest.raises(TidegateError, match="SQLSTATE 0A000") as raised:
        task_of(place.opened())
    assert "protocol='staged'" in raised.value.next_step
    staged = place.opened(protocol="staged")
    assert outcome(staged, task_of(staged)) is Outcome.COMMITTED


def test_the_word_of_a_protocol_is_checked() -> None:
    with pytest.raises(TidegateError, match="protocol one of 'staged', 'prepared'"):
        PostgresSink("out", "", table="t", protocol="xa")


# --- what a task refuses, before anything is decided ---------------------------------------------------------------


def test_rows_that_break_other_rules_of_the_table_are_refused_in_their_task(place: PreparedPlace) -> None:
    """With staged rows these are found at the commit."""
    place.make("CREATE TABLE @.known (id bigint PRIMARY KEY); INSERT INTO @.known VALUES (1000), (1001)")
    place.make(
        "CREATE TABLE @.t (id bigint UNIQUE REFERENCES @.known DEFERRABLE INITIALLY DEFERRED, word text)"
        " PARTITION BY RANGE (id); CREATE TABLE @.low PARTITION OF @.t FOR VALUES FROM (0) TO (5000)"
    )
    sink = place.opened()
    assert outcome(sink, task_of(sink)) is Outcome.COMMITTED
    for rows, state in ((ROWS, "23505"), (rows_from(2, 1), "23503"), (rows_from(7, 1), "23514")):
        with pytest.raises(RowRefused, match=f"SQLSTATE {state}"):
            task_of(sink, attempt_of(epoch=1), rows)
    assert (place.count(), place.gids()) == (2, [])


def test_a_lost_transaction_whose_rows_the_table_refuses_by_now_waits_for_the_table(place: PreparedPlace) -> None:
    sink = place.opened()
    committable = task_of(sink)
    place.roll_back_all()
    assert outcome(sink, committable) is Outcome.LOST
    place.make("ALTER TABLE @.t ADD CONSTRAINT short CHECK (length(word) < 3)")
    with pytest.raises(TidegateError, match="TG-ROW-CONFLICT"):
        sink.redo(committable, [ROWS])
    place.make("ALTER TABLE @.t DROP CONSTRAINT short; ALTER TABLE @.t ALTER id TYPE numeric")
    fresh = place.sink()
    assert fresh.redo(committable, [ROWS]).outcome is Outcome.COMMITTED
    assert place.count() == 2


def test_defaults_of_the_user_decide_nothing(place: PreparedPlace) -> None:
    defaults = (
        "-c default_transaction_isolation=serializable -c default_transaction_read_only=on"
        " -c synchronous_commit=off -c statement_timeout=1h"
    )
    sink = place.opened(options={"options": defaults})
    assert sink.check(plan(SCHEMA)) == []
    assert outcome(sink, task_of(sink)) is Outcome.COMMITTED


# --- whose a transaction is ----------------------------------------------------------------------------------------


def test_only_transactions_of_exactly_this_sink_are_its_own(place: PreparedPlace) -> None:
    sink = place.opened()
    mine = task_of(sink)
    others = [
        msgspec.structs.replace(IDENTITY, job_id="5f0c2"),
        msgspec.structs.replace(IDENTITY, query="by-day-2"),
        msgspec.structs.replace(IDENTITY, sink="number"),
    ]
    for other in others:
        task_of(sink, msgspec.structs.replace(attempt_of(), sink=other))
    place.make("CREATE TABLE @.other (n int)")
    for gid in ("by hand", f"{mine.handle['gid']}x:", "tidegate:"):
        prepared_by_hand(place, "INSERT INTO @.other VALUES (1)", gid)
    assert sink.pending(IDENTITY) == [mine.handle["gid"]]
    newer = msgspec.structs.replace(IDENTITY, generation=7)
    assert sink.pending(newer) == sink.pending(IDENTITY), "of any generation"
    open_ = {each.name: each for each in sink.open_transactions(IDENTITY)}
    assert sorted(each.mine for each in open_.values()) == [False, True], "and of the job's older life"
    assert open_[mine.handle["gid"]].mine
    assert open_[mine.handle["gid"]].since is not None
    sink.abort([*sink.pending(IDENTITY), "by hand", "tidegate:r1:unknown"])
    assert len(place.gids()) == 6


SOMEWHERE = PostgresSink("out", "", table="t" * 63, schema="s" * 63)


@settings(max_examples=50)
@given(
    uids=st.tuples(*[st.text(min_size=1, max_size=60)] * 3),
    numbers=st.tuples(*[st.integers(0, 2**31)] * 5),
)
def test_an_identifier_is_parsed_whole_and_fits(uids: tuple[str, str, str], numbers: tuple[int, ...]) -> None:
    job_id, query, sink = uids
    generation, run, epoch, task, task_attempt = numbers
    identity = SinkIdentity(job="j", job_id=job_id, generation=generation, query=query, sink=sink)
    attempt = Attempt(sink=identity, run=run, run_token="01234567", epoch=epoch, task=task, task_attempt=task_attempt)
    name = PreparedName.of(SOMEWHERE, attempt)
    assert len(str(name).encode()) <= BYTES_AT_MOST
    assert len(name.application_name) < 64
    parsed = PreparedName.parsed(str(name))
    assert parsed == name
    assert name.belongs_to(identity)
    for field, value in zip(("job_id", "query", "sink"), uids, strict=True):
        assert not name.belongs_to(msgspec.structs.replace(identity, **{field: value + "2"}))
        assert not name.belongs_to(msgspec.structs.replace(identity, **{field: value[:-1]}))
    next_try = PreparedName.of(SOMEWHERE, msgspec.structs.replace(attempt, task_attempt=task_attempt + 1))
    assert (name.is_of_task(next_try), name == next_try) == (True, False)


def test_what_was_prepared_for_another_table_is_lost_for_this_one(place: PreparedPlace) -> None:
    """The program names another table than when the rows were prepared."""
    committable = task_of(place.opened())
    moved = place.opened(table="u")
    assert outcome(moved, committable) is Outcome.LOST
    assert moved.redo(committable, [ROWS]).outcome is Outcome.COMMITTED
    assert (place.count(), place.rows("SELECT count(*) FROM @.u"), place.gids()) == (0, [(2,)], [])


def test_a_transaction_of_another_user_is_told_with_the_user(place: PreparedPlace) -> None:
    sink = place.opened()
    committable = task_of(sink)
    user = f"other of {place.schema}"
    place.make(f"CREATE ROLE {quoted(user)} LOGIN PASSWORD 'other'")
    place.make(f"GRANT ALL ON SCHEMA @ TO {quoted(user)}; GRANT ALL ON ALL TABLES IN SCHEMA @ TO {quoted(user)}")
    other = place.sink(options={"user": user, "password": "other"})
    (answer,) = other.commit([committable])
    assert (answer.outcome, "'owner'" in answer.detail) == (Outcome.RETRY, True)
    with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE") as raised:
        other.abort(other.pending(IDENTITY))
    assert "'owner', or a superuser" in raised.value.next_step
    assert place.gids() == [committable.handle["gid"]]


# --- between the protocols -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "then"), [("staged", "prepared"), ("prepared", "staged")])
def test_a_decided_epoch_is_committed_by_the_protocol_that_wrote_it(
    place: PreparedPlace, before: str, then: str
) -> None:
    old = place.opened(protocol=before)
    decided, undecided = task_of(old), task_of(old, attempt_of(epoch=1), rows_from(5, 2))
    new = place.opened(protocol=then)
    assert new.evidence(decided) is Evidence.ABSENT
    assert outcome(new, decided) is Outcome.COMMITTED
    assert old.position(IDENTITY) == new.position(IDENTITY)
    new.abort(new.pending(IDENTITY))
    new.discard(IDENTITY, 1)
    assert (place.gids(), [name for name in place.stages() if "_e1_" in name]) == ([], [])
    again = task_of(new, attempt_of(run=2, epoch=1), rows_from(6, 2))
    assert outcome(new, again) is Outcome.COMMITTED
    assert outcome(new, undecided) is Outcome.UNKNOWN, "of another timeline"
    assert outcome(old, decided) is Outcome.ALREADY
    new.clean(IDENTITY, 1)
    assert (place.count(), place.stages()) == (4, [])
    new.forget(IDENTITY)
    assert new.position(IDENTITY) is None
    assert place.rows("SELECT count(*) FROM @._tidegate_evidence") == [(0,)]


def test_lost_rows_are_written_again_by_a_sink_of_the_other_protocol(place: PreparedPlace) -> None:
    committable = task_of(place.opened())
    place.roll_back_all()
    staged = place.opened(protocol="staged")
    assert outcome(staged, committable) is Outcome.LOST
    staged.fence(committable)
    assert staged.redo(committable, [ROWS]).outcome is Outcome.COMMITTED
    assert place.count() == 2


# --- what is kept, and what is old ---------------------------------------------------------------------------------


def test_evidence_goes_with_its_claim_and_without_one_when_the_epoch_is_finished(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.postgres.ledger.KEPT_ROWS", 2)
    sink = place.opened()
    for epoch in range(4):
        assert outcome(sink, task_of(sink, attempt_of(epoch=epoch), rows_from(epoch, 1))) is Outcome.COMMITTED
        sink.clean(IDENTITY, epoch)
    kept = "SELECT epoch FROM @._tidegate_evidence ORDER BY epoch"
    assert place.rows(kept) == [(2,), (3,)]
    straight = task_of(sink, attempt_of(epoch=4), rows_from(4, 1))
    assert [each.outcome for each in sink.commit_straight([straight])] == [Outcome.COMMITTED]
    assert [each.outcome for each in sink.commit_straight([straight])] == [Outcome.ALREADY]
    sink.clean(IDENTITY, 3)
    assert place.rows(kept) == [(2,), (3,), (4,)]
    sink.clean(IDENTITY, 4)
    assert place.rows(kept) == [(2,), (3,)]
    assert place.count() == 5


def test_transactions_that_are_old_are_told_at_a_start_and_by_a_check(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of this sink and those of others: each of them holds back vacuum."""
    sink = place.opened()
    mine = task_of(sink)
    place.make("CREATE TABLE @.other (n int)")
    prepared_by_hand(place, "INSERT INTO @.other VALUES (1)", "one of another program")
    assert [each.health.value for each in sink.probe("sink", plan(SCHEMA))] == ["OK", "WARN", "OK"]
    assert "prepared transaction" not in caplog.text
    monkeypatch.setattr("tidegate.sinks.postgres.prepared.OLD_SECONDS", 0.0)
    _, _, room, *old = sink.probe("sink", plan(SCHEMA))
    assert room.detail == "max_prepared_transactions = 64, of which 2 are in use"
    assert ["'one of another program'" in old[0].detail, mine.handle["gid"] in old[1].detail] == [True, True]
    assert "vacuum" in old[0].next
    place.opened()
    assert "'one of another program' of user 'owner'" in caplog.text
    assert mine.handle["gid"] in caplog.text


def test_a_description_opens_a_sink_of_the_same_protocol(place: PreparedPlace) -> None:
    sink = place.opened()
    described = describe("q", sink, Level.EXACTLY_ONCE)
    assert described.target["protocol"] == "prepared"
    assert described.told.endswith(f"/{DATABASE}, table {place.schema}.t, by prepared transactions")
    opened = open_sink(described, {"password": sink.server.settings["password"]})
    committable = task_of(sink)
    assert opened.pending(IDENTITY) == [committable.handle["gid"]] == [name_of(committable)]
    assert opened.places_rows()
    assert not place.sink(protocol="staged").places_rows()
    assert [each.outcome for each in opened.commit([committable])] == [Outcome.COMMITTED]
