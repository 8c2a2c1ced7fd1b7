"""The Kafka sink against a real broker: late and doubled commits, redone transactions, rows that a topic refuses."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from kafka import KafkaAdminClient
from kafka.partitioner.default import murmur2
from kafka.protocol.producer.transaction import EndTxnRequest

from tests.kafka.seen import open_transactions, visible_now
from tests.support.driver import PYTHON_PATH
from tests.support.today import turn
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, Committable, Evidence, Outcome, SinkIdentity, epoch_digest
from tidegate.kafka.clients import Clients
from tidegate.kafka.replies import KafkaRefused, Reply
from tidegate.kafka.transactions import Producer
from tidegate.sinks.base import SinkPlan, Transaction
from tidegate.sinks.kafka.producers import ProducerTurn
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.kafka.transaction import Handle, KafkaTransaction, TransactionBroken
from tidegate.sinks.kafka.wires import wire_of
from tidegate.sinks.rows import RowRefused, place_of
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic


@pytest.fixture
def sink(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaSink:
    """A sink of its own topic and prefix; its place is this test's."""
    monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / "place"))
    topic = make_topic(broker.servers)
    sink = KafkaSink("numbers", broker.servers, topic=topic, transactional_id_prefix=topic, transaction_timeout=60)
    sink.open(plan_of(SCHEMA))
    return sink


def plan_of(schema: pa.Schema) -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: ())


def prepared(sink: KafkaSink, attempt: Attempt, batch: pa.RecordBatch, *, finished: int = -1) -> Committable:
    transaction = sink.in_epoch(finished).begin(attempt)
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


def ids(sink: KafkaSink) -> list[int]:
    rows = visible_now(sink.clients.servers, sink.topic or "")
    return sorted(json.loads(row.value or b"")["id"] for row in rows)


def test_an_identity_serves_one_attempt_and_a_late_commit_hits_nothing(sink: KafkaSink) -> None:
    """The commit of an epoch comes once more, while a later epoch is open under the same transactional id."""
    old = prepared(sink, attempt_of(epoch=0), rows_from(0, 2))
    sink.commit([old])
    between = prepared(sink, attempt_of(epoch=1), rows_from(1, 2), finished=0)
    sink.commit([between])
    newer = prepared(sink, attempt_of(epoch=2), rows_from(2, 2), finished=1)
    assert Handle.of(newer).producer.transactional_id == Handle.of(old).producer.transactional_id
    assert Handle.of(newer).producer != Handle.of(old).producer
    (late,) = sink.commit([old])
    assert late.outcome is Outcome.LOST, "the broker cannot tell, so the evidence has to"
    assert ids(sink) == [0, 1, 1000, 1001], "nothing of the undecided epoch is visible"
    assert sink.evidence(newer) is Evidence.ABSENT
    sink.commit([newer])
    assert ids(sink) == [0, 1, 1000, 1001, 2000, 2001]


@turn(2, of=3)
@pytest.mark.parametrize(("what", "times"), [("ATTEMPT", "60"), ("REDO", "10")])
def test_a_process_outlives_transactions_that_fail_while_their_rows_are_sent(
    broker: Broker, tmp_path: Path, what: str, times: str
) -> None:
    """The client asks the coordinator to add a partition when its first row is sent. A client that is closed before the
    answer has ended the whole process: a worker with all its other tasks, or a driver."""
    program = [sys.executable, str(Path(__file__).with_name("aborting_program.py"))]
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "TIDEGATE_PLACE": str(tmp_path / "place")}
    topic = make_topic(broker.servers)
    done = subprocess.run(
        [*program, broker.servers, topic, what, times], env=environment, capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stdout.strip()) == (0, f"outlived {times}"), done.stderr[-2000:]
    assert visible_now(broker.servers, topic) == []


def test_a_job_that_was_given_up_is_forgotten_and_another_one_is_not(sink: KafkaSink) -> None:
    """A new life of the job has another id: the evidence of the old one would stand against its start."""
    sink.commit([prepared(sink, attempt_of(epoch=3), rows_from(0, 2))])
    anew = replace_id(IDENTITY, "another")
    found = sink.position(anew)
    assert found is not None
    assert (found.job_id, found.epoch) == (IDENTITY.job_id, 3)
    assert sink.position(msgspec.structs.replace(IDENTITY, job="moved")) == found, "the same job, under another name"
    assert sink.position(msgspec.structs.replace(anew, job="moved")) is None
    sink.forget(anew)
    assert sink.position(anew) == found, "nothing of the old life belongs to the new one"
    sink.forget(IDENTITY)
    sink.forget(IDENTITY)
    assert sink.position(anew) is None
    assert sink.position(IDENTITY) is None
    assert ids(sink) == [0, 1], "the rows stay"


def replace_id(identity: SinkIdentity, job_id: str) -> SinkIdentity:
    return msgspec.structs.replace(identity, job_id=job_id)


def test_the_ids_of_a_task_take_turns_and_stay_two(sink: KafkaSink) -> None:
    names = set[str]()
    for epoch in range(6):
        committable = prepared(sink, attempt_of(epoch=epoch), rows_from(epoch, 1), finished=epoch - 1)
        names.add(Handle.of(committable).producer.transactional_id)
        sink.commit([committable])
    assert len(names) == 2


def test_tasks_of_one_epoch_never_share_an_id(sink: KafkaSink) -> None:
    """A worker runs several tasks of an epoch one after the other: each keeps its transaction open until the end."""
    committables = [prepared(sink, attempt_of(task=task), rows_from(task, 1)) for task in range(8)]
    assert len({Handle.of(each).producer.transactional_id for each in committables}) == 8
    assert {answer.outcome for answer in sink.commit(committables)} == {Outcome.COMMITTED}
    assert ids(sink) == [task * 1000 for task in range(8)]


def test_a_lost_transaction_is_written_again_once_by_two_drivers_at_once(sink: KafkaSink) -> None:
    lost = prepared(sink, attempt_of(), rows_from(0, 50))
    sink.abort(sink.pending(IDENTITY))
    assert sink.commit([lost])[0].outcome is Outcome.LOST
    answers: list[Outcome] = []

    def redo() -> None:
        for _ in range(40):
            sink.fence(lost)
            if sink.evidence(lost) is Evidence.PRESENT:
                answers.append(Outcome.ALREADY)
                return
            answer = sink.redo(lost, [rows_from(0, 50)])
            if answer.outcome is not Outcome.RETRY and answer.outcome is not Outcome.LOST:
                answers.append(answer.outcome)
                return

    drivers = [threading.Thread(target=redo) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert sorted(answer.name for answer in answers) == ["ALREADY", "COMMITTED"]
    assert ids(sink) == list(range(50))
    assert open_transactions(sink.clients.servers, sink.prefix) == []


def test_a_transaction_that_was_ended_by_others_while_it_was_written_is_not_prepared(sink: KafkaSink) -> None:
    """Whatever the writer does after it was fenced, nothing of it can be committed."""
    transaction = sink.begin(attempt_of())
    transaction.write(rows_from(0, 1000))
    (name,) = names_of(sink)
    wire_of(sink.clients).fence(name, 60_000)
    with pytest.raises(TransactionBroken):
        written_on(transaction, rows_from(1, 1000))
    transaction.abort()
    assert ids(sink) == []
    assert open_transactions(sink.clients.servers, sink.prefix) == []


def test_a_transaction_that_was_aborted_and_revived_is_not_prepared(sink: KafkaSink) -> None:
    """Aborted by hand with EndTxn, which fences nobody; the next row, in another partition, begins it again."""
    sink.partition = "partition"
    transaction = sink.begin(attempt_of())
    transaction.write(in_partition(0, rows_from(0, 1000)))
    (name,) = names_of(sink)
    wire = wire_of(sink.clients)
    abort_by_hand(sink.clients.servers, wire.describe([name])[name].producer)
    with pytest.raises(TransactionBroken):
        written_on(transaction, in_partition(1, rows_from(1, 1000)))
    transaction.abort()
    assert ids(sink) == []
    assert open_transactions(sink.clients.servers, sink.prefix) == []


def names_of(sink: KafkaSink) -> list[str]:
    """The open transactional ids of the sink, once its first rows are on the broker."""
    end = time.monotonic() + 30
    while not (found := sink.pending(IDENTITY)) and time.monotonic() < end:
        time.sleep(0.01)
    return [name.rsplit("@", 1)[0] for name in found]


def written_on(transaction: Transaction, batch: pa.RecordBatch) -> None:
    transaction.write(batch)
    transaction.pre_commit()


def in_partition(number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column("partition", pa.array([number] * batch.num_rows, pa.int32()))


def abort_by_hand(servers: str, producer: Producer) -> None:
    admin: Any = KafkaAdminClient(bootstrap_servers=servers)
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=False,
        max_version=4,
    )
    try:
        admin._manager.run(lambda: admin._manager.send(request, node_id=1))
    finally:
        admin.close()


def test_a_row_that_the_topic_refuses_fails_the_epoch_and_says_which(broker: Broker, sink: KafkaSink) -> None:
    small = make_topic(broker.servers, config={"max.message.bytes": "1000"})
    sink.topic, sink.key = small, "word"
    transaction = sink.begin(attempt_of(epoch=7))
    too_long = pa.RecordBatch.from_pydict({"id": [1], "word": [secrets.token_hex(5000)]}, schema=SCHEMA)
    with pytest.raises(RowRefused) as caught:
        written_on(transaction, too_long)
    transaction.abort()
    error = caught.value.placed(place_of(attempt_of(epoch=7)))
    assert error.catalogue_entry is Code.RECORD_REFUSED
    for told in ("max.message.bytes", small, "epoch 7", too_long["word"][0].as_py()[:60]):
        assert told in str(error)
    assert error.details["topic"] == small
    assert len(str(error)) < 2_000
    assert open_transactions(sink.clients.servers, sink.prefix) == []


@turn(3, of=4)
@pytest.mark.parametrize("headers", [None, "headers"], ids=["in batches", "one by one"])
def test_rows_keep_their_order_when_the_client_has_no_room_for_them(sink: KafkaSink, headers: str | None) -> None:
    """It takes 200 messages at a time, and has to be waited for a hundred times."""
    sink.clients = replace(sink.clients, options={"queue.buffering.max.messages": "200"})
    sink.key, sink.headers = "key", headers
    columns: dict[str, list[Any]] = {"key": [str(n % 16) for n in range(20_000)], "number": list(range(20_000))}
    if headers is not None:
        columns[headers] = [[{"key": "h", "value": b"v"}]] * 20_000
    prepared_now = prepared(sink, attempt_of(epoch=0), pa.RecordBatch.from_pydict(columns))
    assert [answer.outcome for answer in sink.commit([prepared_now])] == [Outcome.COMMITTED]
    seen: dict[bytes | None, list[int]] = {}
    for row in visible_now(sink.clients.servers, sink.topic or ""):
        seen.setdefault(row.key, []).append(json.loads(row.value or b"")["number"])
    assert seen == {str(key).encode(): list(range(key, 20_000, 16)) for key in range(16)}


def test_a_key_goes_where_javas_clients_put_it(sink: KafkaSink) -> None:
    keys = [f"key-{number}" for number in range(40)]
    sink.key = "key"
    sink.commit([prepared(sink, attempt_of(epoch=0), pa.RecordBatch.from_pydict({"key": keys}))])
    found = {row.key: row.partition for row in visible_now(sink.clients.servers, sink.topic or "")}
    assert found == {key.encode(): (murmur2(key.encode()) & 0x7FFFFFFF) % 8 for key in keys}


def test_orphans_of_this_sink_alone_are_aborted(sink: KafkaSink) -> None:
    mine = prepared(sink, attempt_of(), rows_from(0, 1))
    like_mine = msgspec.structs.replace(IDENTITY, sink="numbers-2")
    other = prepared(sink, msgspec.structs.replace(attempt_of(), sink=like_mine), rows_from(1, 1))
    sink.abort(sink.pending(IDENTITY))
    assert sink.pending(IDENTITY) == []
    assert [each.outcome for each in sink.commit([mine, other])] == [Outcome.LOST, Outcome.COMMITTED]
    assert ids(sink) == [1000]


def test_the_position_does_not_wait_for_a_transaction_that_is_still_to_be_committed(sink: KafkaSink) -> None:
    """At a restart a decided transaction is open, and its sink is compared with the ledger before it is committed."""
    first = prepared(sink, attempt_of(epoch=0), rows_from(0, 1))
    sink.commit([first])
    pending = prepared(sink, attempt_of(epoch=1), rows_from(1, 1), finished=0)
    found = sink.position(IDENTITY)
    assert found is not None
    assert found.epoch == 0
    sink.commit([pending])
    found = sink.position(IDENTITY)
    assert found is not None
    assert found.epoch == 1


def test_a_version_of_the_request_that_raises_the_epoch_is_never_sent(sink: KafkaSink) -> None:
    """After a commit the producer epoch is the same: the request was sent at version 4 or below."""
    committable = prepared(sink, attempt_of(), rows_from(0, 1))
    producer = Handle.of(committable).producer
    wire = wire_of(sink.clients)
    assert wire.commit([producer]) == [Reply.NONE]
    assert wire.describe([producer.transactional_id])[producer.transactional_id].producer == producer
    while (again := wire.commit([producer])) == [Reply.CONCURRENT_TRANSACTIONS]:
        time.sleep(0.01)
    assert again == [Reply.NONE]


def test_a_writer_never_takes_anothers_transaction_for_its_own(sink: KafkaSink) -> None:
    """All of its messages are confirmed; then another process opens the same id and writes to the same partition."""
    sink.partition = "partition"
    mine = sink.begin(attempt_of(run=1))
    mine.write(in_partition(0, rows_from(0, 3)))
    (name,) = names_of(sink)
    assert isinstance(mine, KafkaTransaction)
    mine._serve("flush", 30)
    other = ProducerTurn(sink._settings().open(name), prepared=lambda: None, give_back=lambda: None)
    theirs = KafkaTransaction(sink._settings(), sink._look, attempt_of(run=2), other)
    theirs.write(in_partition(0, rows_from(1, 3)))
    theirs._serve("flush", 30)
    with pytest.raises(TransactionBroken):
        mine.pre_commit()
    committable = theirs.pre_commit()
    assert committable is not None
    assert sink.commit([committable])[0].outcome is Outcome.COMMITTED
    assert ids(sink) == [1000, 1001, 1002]


def test_a_lost_transaction_is_written_again_once_although_the_sink_has_another_topic_by_now(
    broker: Broker, sink: KafkaSink
) -> None:
    lost = prepared(sink, attempt_of(), rows_from(0, 3))
    sink.abort(sink.pending(IDENTITY))
    assert sink.commit([lost])[0].outcome is Outcome.LOST
    sink.topic = make_topic(broker.servers)
    for _ in range(3):
        sink.fence(lost)
        if sink.evidence(lost) is Evidence.ABSENT:
            assert sink.redo(lost, [rows_from(0, 3)]).outcome is Outcome.COMMITTED
    assert ids(sink) == [0, 1, 2]
    found = sink.position(IDENTITY)
    assert found is not None
    assert found.digest == epoch_digest([lost])


def test_the_position_counts_what_went_into_other_topics(broker: Broker, sink: KafkaSink) -> None:
    first = sink.topic
    for epoch, topic in enumerate([first, make_topic(broker.servers), first]):
        sink.topic = topic
        sink.commit([prepared(sink, attempt_of(epoch=epoch), rows_from(epoch, 1), finished=epoch - 1)])
        found = sink.position(IDENTITY)
        assert found is not None
        assert found.epoch == epoch


def test_a_job_of_the_same_name_with_another_topic_is_nobody_of_ours(broker: Broker, sink: KafkaSink) -> None:
    """Two teams, one cluster. In the same topic it is the same job, whose checkpoint was begun anew."""
    sink.commit([prepared(sink, attempt_of(), rows_from(0, 1))])
    theirs = msgspec.structs.replace(IDENTITY, job_id="beef")
    found = sink.position(theirs)
    assert found is not None
    assert found.job_id == IDENTITY.job_id
    sink.topic = make_topic(broker.servers)
    assert sink.position(theirs) is None


def test_what_an_attempt_left_open_is_aborted_while_the_job_runs(
    sink: KafkaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lost against another attempt of its task: nobody decides it, and readers wait behind it."""
    monkeypatch.setattr("tidegate.sinks.orphans.LOOK_FOR_ORPHANS_SECONDS", 0.0)
    transactions = [sink.begin(attempt_of(task_attempt=each)) for each in range(2)]
    for number, transaction in enumerate(transactions):
        transaction.write(rows_from(number, 1))
    loser, winner = [transaction.pre_commit() for transaction in transactions]
    assert loser is not None
    assert winner is not None
    sink.commit([winner])
    sink.in_epoch(0)
    assert [Handle.of(loser).producer.transactional_id] == names_of(sink), "it may still be about to end"
    sink.in_epoch(1)
    assert sink.pending(IDENTITY) == []
    assert ids(sink) == [1000]


def test_options_that_were_changed_reach_the_next_producer(broker: Broker, sink: KafkaSink) -> None:
    """In one process, as in a notebook: the remedy for a row that is too large has to work."""
    too_long = pa.RecordBatch.from_pydict({"id": [1], "word": [secrets.token_hex(5000)]}, schema=SCHEMA)
    for epoch, (limit, refused) in enumerate([(2000, True), (100_000, False)]):
        options = {"message.max.bytes": limit, "compression.type": "none"}
        now = KafkaSink("numbers", broker.servers, topic=sink.topic, transaction_timeout=60, options=options)
        now.open(plan_of(SCHEMA))
        transaction = now.begin(attempt_of(epoch=epoch))
        with pytest.raises(TidegateError) if refused else nullcontext():
            written_on(transaction, too_long)
        transaction.abort()


def test_no_log_of_whatever_level_has_a_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("kafka", "kafka.protocol.parser", "kafka.net.connection"):
        logging.getLogger(name).debug("Request: SaslAuthenticate(auth_bytes=very-secret)")
    assert "very-secret" not in caplog.text


# --- what stands against a start ---------------------------------------------------------------------------


def violations(sink: KafkaSink, schema: pa.Schema) -> dict[str, str]:
    return {error.code: str(error) for error in sink.check(plan_of(schema))}


def test_everything_that_stands_against_a_start_is_said_at_once(broker: Broker) -> None:
    sink = KafkaSink(
        "numbers",
        broker.servers,
        topic="there-is-none",
        key="nowhere",
        transaction_timeout=7200,
        options={"acks": 1, "transactional.id": "mine"},
    )
    found = sink.check(plan_of(SCHEMA))
    told = "\n".join(map(str, found))
    assert len(found) == 5
    for each in ("'acks'", "'transactional.id'", "nowhere", "there-is-none", "transaction.max.timeout.ms"):
        assert each in told


def test_rows_that_have_no_column_for_the_value_are_refused(broker: Broker) -> None:
    found = violations(KafkaSink("sink", broker.servers), pa.schema([("topic", pa.string())]))
    assert list(found) == ["TG-SCHEMA-MISMATCH"]


def test_a_column_of_the_wrong_type_is_refused(broker: Broker) -> None:
    topic = make_topic(broker.servers)
    schema = pa.schema([("k", pa.list_(pa.int64())), ("p", pa.string()), ("value", pa.struct([("a", pa.int64())]))])
    sink = KafkaSink("numbers", broker.servers, topic=topic, format="raw", key="k", partition="p")
    assert set(violations(sink, schema)) == {"TG-SCHEMA-MISMATCH"}
    assert len(sink.check(plan_of(schema))) == 3


def test_a_broker_that_is_down_is_a_clear_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.kafka.cluster._CONTACT_SECONDS", 1.0)
    sink = KafkaSink("numbers", "127.0.0.1:1", topic="t", options={"sasl.password": "very-secret"})
    told = "\n".join(violations(sink, SCHEMA).values())
    assert "TG-SINK-UNUSABLE" in told
    assert "127.0.0.1:1" in told
    assert "very-secret" not in told + repr(sink.clients)


def test_a_cluster_that_does_not_answer_holds_up_nobody_who_wants_another_one(broker: Broker) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:

        def want_it() -> None:
            with suppress(KafkaRefused):
                wire_of(Clients(f"127.0.0.1:{silent.getsockname()[1]}"))

        waiting = threading.Thread(target=want_it, daemon=True)
        waiting.start()
        silent.accept()
        begun = time.monotonic()
        wire_of(Clients(broker.servers)).groups()
        assert time.monotonic() - begun < 10
        assert waiting.is_alive(), "it still waits for the one that does not answer"


def test_names_that_do_not_exist_are_nobodys(sink: KafkaSink) -> None:
    nobody = SinkIdentity(job="j", job_id="x", generation=1, query="q", sink="s")
    assert sink.pending(nobody) == []
    assert sink.position(nobody) is None
