"""Single requests are held back, lost and repeated while a sink writes, and drivers die and race where it hurts."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from kafka.protocol.api_key import ApiKey

from tests.kafka.seen import await_markers, open_transactions, visible_now
from tests.kafka.test_kafka_kills import FILES, both_have_every_row_once, ids_of, write_numbers
from tests.support.driver import Driver
from tests.support.today import turn
from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt, Committable, Evidence, Outcome
from tidegate.kafka.clients import Clients
from tidegate.kafka.replies import Reply
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.kafka.transaction import Handle, TransactionBroken
from tidegate.sinks.kafka.wires import wire_of
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.process import Process, _look
from tidegate.testing.kafka.proxy import Proxy
from tidegate.testing.kafka.record import ClusterRecord, NodeRecord, save
from tidegate.testing.kafka.strike import RequestStrike
from tidegate.testing.kafka.topics import PARTITIONS, make_topic

PROGRAM = Path(__file__).with_name("faults_program.py")
FEW = 6
"""Files, for drivers that are started again and again; the epoch after the first is the one that is lost."""
SECONDS = 300.0
"""For what a driver does in some seconds on a machine with nothing else to do."""
WAYS = {"drop": 0, "drop_answer": 1, "repeat": 2}
"""What is done to a request, and how often the broker answers it then."""


@pytest.fixture(scope="module")
def proxy_of_all(broker: Broker) -> Iterator[Proxy]:
    with Proxy(broker) as proxy:
        yield proxy


@pytest.fixture
def proxy(proxy_of_all: Proxy) -> Iterator[Proxy]:
    yield proxy_of_all
    proxy_of_all.forget()


@pytest.fixture
def sink(broker: Broker, proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaSink:
    """A sink whose clients all come by way of the proxy, with a topic, a prefix and a place of its own."""
    monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / "place"))
    topic = make_topic(broker.servers)
    sink = KafkaSink("numbers", proxy.servers, topic=topic, transactional_id_prefix=topic, transaction_timeout=60)
    sink.open(SinkPlan(identity=IDENTITY, schema=SCHEMA, mode="append", local_master=True, read_journal=lambda _: ()))
    return sink


def prepared(sink: KafkaSink, attempt: Attempt, batch: pa.RecordBatch, *, finished: int = -1) -> Committable:
    transaction = sink.in_epoch(finished).begin(attempt)
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


def ids(broker: Broker, sink: KafkaSink) -> list[int]:
    return sorted(json.loads(row.value or b"")["id"] for row in visible_now(broker.servers, sink.topic or ""))


def open_of(broker: Broker, sink: KafkaSink) -> list[str]:
    return open_transactions(broker.servers, sink.prefix)


# --- the proxy itself --------------------------------------------------------------------------------------


def test_all_clients_of_a_proxy_come_by_way_of_it(broker: Broker, proxy: Proxy, sink: KafkaSink) -> None:
    seen = proxy.hold(ApiKey.EndTxn, seconds=0)
    committable = prepared(sink, attempt_of(), rows_from(0, 3))
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.COMMITTED]
    (request,) = seen.requests
    assert Handle.of(committable).producer.transactional_id.encode() in request
    assert [reply_of(answer) for answer in seen.wait_for_answers()] == [Reply.NONE]
    assert ids(broker, sink) == [0, 1, 2]


def test_a_broker_that_was_started_without_a_detour_has_no_proxy(tmp_path: Path) -> None:
    node = NodeRecord(number=1, port=1, controller_port=2)
    save(tmp_path, ClusterRecord(version="4.1.1", cluster_id="x", transaction_version=None, settings={}, nodes=(node,)))
    with pytest.raises(TidegateError, match="detour=True"):
        Proxy(Broker(tmp_path))


def reply_of(answer: bytes) -> int:
    """The error code in an answer to EndTxn 3 or 4: behind correlation id, an empty list of tags and throttle time."""
    return int.from_bytes(answer[9:11], "big", signed=True)


# --- the requests of one transaction -----------------------------------------------------------------------

OF_A_TRANSACTION = (
    ApiKey.InitProducerId,
    ApiKey.AddPartitionsToTxn,
    ApiKey.Produce,
    ApiKey.AddOffsetsToTxn,
    ApiKey.TxnOffsetCommit,
    ApiKey.DescribeTransactions,
    ApiKey.EndTxn,
)
"""In the order in which a task and then a driver send them; TxnOffsetCommit is what carries the evidence."""


@turn(3, of=4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("request_", OF_A_TRANSACTION, ids=lambda key: key.name)
def test_whichever_request_is_lost_or_repeated_the_rows_are_there_once(
    broker: Broker, proxy: Proxy, sink: KafkaSink, request_: ApiKey, way: str
) -> None:
    strike: RequestStrike = getattr(proxy, way)(request_)
    committable = prepared_at_last(sink, rows_from(0, 500))
    brought_through(sink, committable, rows_from(0, 500))
    assert (len(strike.requests), len(strike.wait_for_answers())) == (1, WAYS[way])
    assert ids(broker, sink) == list(range(500))
    assert sink.evidence(committable) is Evidence.PRESENT
    assert open_of(broker, sink) == []


def test_a_commit_that_was_held_back_hits_nothing(broker: Broker, proxy: Proxy, sink: KafkaSink) -> None:
    """Its driver sends it again; the first comes while a later epoch is open under the same transactional id."""
    old = prepared(sink, attempt_of(epoch=0), rows_from(0, 2))
    held = proxy.hold(ApiKey.EndTxn, cut=True)
    assert [answer.outcome for answer in sink.commit([old])] == [Outcome.RETRY]
    assert brought_through(sink, old, rows_from(0, 2)) is Outcome.COMMITTED
    sink.commit([prepared(sink, attempt_of(epoch=1), rows_from(1, 2), finished=0)])
    newer = prepared(sink, attempt_of(epoch=2), rows_from(2, 2), finished=1)
    assert Handle.of(newer).producer.transactional_id == Handle.of(old).producer.transactional_id
    assert held.answers == []
    held.release()
    assert [reply_of(answer) for answer in held.wait_for_answers()] == [Reply.PRODUCER_FENCED]
    assert ids(broker, sink) == [0, 1, 1000, 1001], "nothing of the undecided epoch is visible"
    sink.commit([newer])
    assert ids(broker, sink) == [0, 1, 1000, 1001, 2000, 2001]


def test_a_slow_commit_is_waited_for(proxy: Proxy, sink: KafkaSink) -> None:
    committable = prepared(sink, attempt_of(), rows_from(0, 2))
    held = proxy.hold(ApiKey.EndTxn, seconds=1.0)
    begun = time.monotonic()
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.COMMITTED]
    assert time.monotonic() - begun >= 1.0
    assert len(held.requests) == 1


def test_the_answer_of_a_commit_is_lost_and_the_evidence_decides(broker: Broker, proxy: Proxy, sink: KafkaSink) -> None:
    """By the time the commit comes again its id has been opened by somebody else: the broker cannot tell."""
    committable = prepared(sink, attempt_of(), rows_from(0, 3))
    lost = proxy.drop_answer(ApiKey.EndTxn)
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.RETRY]
    assert [reply_of(answer) for answer in lost.answers] == [Reply.NONE], "it was committed"
    sink.fence(committable)
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.LOST]
    assert brought_through(sink, committable, rows_from(0, 3)) is Outcome.ALREADY
    assert ids(broker, sink) == [0, 1, 2]


def test_the_answer_of_a_redone_commit_is_lost_and_the_rows_are_not_written_a_third_time(
    broker: Broker, proxy: Proxy, sink: KafkaSink
) -> None:
    committable = prepared(sink, attempt_of(), rows_from(0, 3))
    sink.fence(committable)
    lost = proxy.drop_answer(ApiKey.EndTxn, first=2)
    assert brought_through(sink, committable, rows_from(0, 3)) is Outcome.ALREADY
    assert [reply_of(answer) for answer in lost.answers] == [Reply.NONE], "it was committed by the redo"
    assert ids(broker, sink) == [0, 1, 2]


def test_without_its_evidence_no_transaction_is_prepared(broker: Broker, proxy: Proxy, sink: KafkaSink) -> None:
    wire_of(sink.clients)._patience = 1.0
    never = proxy.drop(ApiKey.TxnOffsetCommit, count=1000)
    transaction = sink.begin(attempt_of(task_attempt=0))
    transaction.write(rows_from(0, 3))
    with pytest.raises(TransactionBroken):
        transaction.pre_commit()
    transaction.abort()
    assert len(never.requests) > 1
    assert (ids(broker, sink), open_of(broker, sink)) == ([], [])
    proxy.forget()
    sink.commit([prepared(sink, attempt_of(task_attempt=1), rows_from(0, 3))])
    assert ids(broker, sink) == [0, 1, 2]


@pytest.mark.parametrize(
    "request_",
    [ApiKey.FindCoordinator, ApiKey.ListTransactions, ApiKey.DescribeTransactions, ApiKey.InitProducerId],
    ids=lambda key: key.name,
)
def test_an_orphan_is_aborted_whichever_answer_is_lost(
    broker: Broker, proxy: Proxy, sink: KafkaSink, request_: ApiKey
) -> None:
    prepared(sink, attempt_of(), rows_from(0, 3))
    wire_of(sink.clients)._coordinators.clear()
    lost = proxy.drop_answer(request_)
    sink.abort(sink.pending(IDENTITY))
    assert len(lost.requests) == 1
    assert (ids(broker, sink), open_of(broker, sink)) == ([], [])


@pytest.mark.parametrize("request_", [ApiKey.ListGroups, ApiKey.OffsetFetch], ids=lambda key: key.name)
def test_a_sink_knows_where_it_is_whichever_answer_is_lost(proxy: Proxy, sink: KafkaSink, request_: ApiKey) -> None:
    sink.commit([prepared(sink, attempt_of(epoch=4), rows_from(0, 3))])
    lost = proxy.drop_answer(request_)
    found = sink.position(IDENTITY)
    assert len(lost.requests) == 1
    assert found is not None
    assert found.epoch == 4


def prepared_at_last(sink: KafkaSink, batch: pa.RecordBatch) -> Committable:
    """As Spark does it: a task whose transaction is broken runs again."""
    for number in range(5):
        transaction = sink.begin(attempt_of(task_attempt=number))
        try:
            transaction.write(batch)
            committable = transaction.pre_commit()
        except TransactionBroken:
            transaction.abort()
        else:
            assert committable is not None
            return committable
    raise AssertionError("no attempt comes through")


def brought_through(sink: KafkaSink, committable: Committable, batch: pa.RecordBatch) -> Outcome:
    """As a finisher does it: what may pass is tried again; what may be lost is fenced, looked for, written again."""
    for _ in range(100):
        (answer,) = sink.commit([committable])
        if answer.outcome is Outcome.LOST:
            sink.fence(committable)
            if sink.evidence(committable) is Evidence.PRESENT:
                return Outcome.ALREADY
            answer = sink.redo(committable, [batch])
        if answer.outcome in (Outcome.COMMITTED, Outcome.ALREADY):
            return answer.outcome
        time.sleep(0.05)
    raise AssertionError("it is never committed")


# --- real drivers ------------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_job_whose_requests_are_lost_and_repeated_writes_every_row_once(
    tmp_path: Path, broker: Broker, proxy: Proxy
) -> None:
    topic = make_topic(broker.servers)
    write_numbers(tmp_path)
    strikes = [
        getattr(proxy, way)(request, first=1 + 9 * number)
        for request, (number, way) in itertools.product(OF_A_TRANSACTION, enumerate(WAYS))
        if (request, way) != (ApiKey.InitProducerId, "repeat")  # it fences its own producer: the job starts again
    ]
    with started(tmp_path, proxy, topic) as driver:
        assert driver.wait(SECONDS) == 0, driver.tail()
    assert [len(strike.requests) for strike in strikes] == [1] * len(strikes)
    both_have_every_row_once(tmp_path, broker, topic)


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_commit_that_arrives_five_seconds_late_shows_nothing_that_is_undecided(
    tmp_path: Path, broker: Broker, proxy: Proxy
) -> None:
    """The commits of epoch 2: they come when a later one is prepared under one of their ids, and not decided.

    Which ids an epoch gets depends on which worker runs which task: the first one that shares an id is taken.
    """
    topic = make_topic(broker.servers)
    write_numbers(tmp_path)
    pauses = ["commit.before@2=pause", *(f"prepared.after@{epoch}=pause" for epoch in range(4, FILES))]
    with started(tmp_path, proxy, topic, failpoints=",".join(pauses)) as driver:
        process = process_of(driver)
        wait_until(process.is_paused, driver)
        held = proxy.hold(ApiKey.EndTxn, cut=True, count=PARTITIONS, where=sent_for_the_first_time())
        process.send(signal.SIGCONT)
        wait_until(lambda: held.requests, driver)
        late = time.monotonic() + 5
        undecided = when_an_id_serves_again(held, process, driver, broker, ids_of(tmp_path))
        time.sleep(max(0.0, late - time.monotonic()))
        decided = visible_now(broker.servers, topic)
        held.release()
        replies = {reply_of(answer) for answer in held.wait_for_answers()}
        assert Reply.PRODUCER_FENCED in replies, "where the id serves another transaction by now"
        assert replies <= {Reply.PRODUCER_FENCED, Reply.NONE}
        assert visible_now(broker.servers, topic) == decided
        assert open_transactions(broker.servers, ids_of(tmp_path)) == undecided
        while driver.process.poll() is None:
            if process.is_paused():
                process.send(signal.SIGCONT)
            time.sleep(0.02)
        assert driver.wait(SECONDS) == 0, driver.tail()
    both_have_every_row_once(tmp_path, broker, topic)


def when_an_id_serves_again(
    held: RequestStrike, process: Process, driver: Driver, broker: Broker, ids: str
) -> list[str]:
    """What is open in the first epoch that is prepared with an id of which a request is held."""
    while True:
        wait_until(process.is_paused, driver)
        await_markers(broker.servers)
        undecided = open_transactions(broker.servers, ids)
        if any(b"%b\0" % name.encode() in request for request in held.requests for name in undecided):
            return undecided
        process.send(signal.SIGCONT)


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_driver_dies_between_the_commit_of_a_redo_and_done(tmp_path: Path, broker: Broker, proxy: Proxy) -> None:
    """Once when the first of the epoch's lost transactions is written again, and once when all of them are."""
    topic = make_topic(broker.servers)
    write_numbers(tmp_path, FEW)
    lose_a_decided_epoch(tmp_path, broker, proxy, topic)
    for number, point in enumerate(("redo.written.after", "done.before@1")):
        hold = tmp_path / f"hold-{number}"
        with started(tmp_path, proxy, topic, failpoints=f"{point}=hold:{hold}") as driver:
            wait_until(hold.exists, driver)
            driver.kill_all()
    with started(tmp_path, proxy, topic) as driver:
        assert driver.wait(SECONDS) == 0, driver.tail()
        assert "epoch 1, sink topic: redone" in driver.tail(1_000_000)
    both_have_every_row_once(tmp_path, broker, topic, FEW)


@pytest.mark.more
@pytest.mark.timeout(600)
def test_two_drivers_that_redo_the_same_epoch_at_once_write_every_row_once(
    tmp_path: Path, broker: Broker, proxy: Proxy
) -> None:
    """The first stands still before its first redo, and its locks are taken away by force. The second has redone one
    transaction and is about to commit another when the first goes on: it finds the one, and fences the other."""
    topic = make_topic(broker.servers)
    write_numbers(tmp_path, FEW)
    lose_a_decided_epoch(tmp_path, broker, proxy, topic)
    commits = proxy.hold(ApiKey.EndTxn, seconds=0, count=1000)
    with started(tmp_path, proxy, topic, failpoints="redo.written.before=pause", log="first") as first:
        process = process_of(first)
        wait_until(process.is_paused, first)
        proxy.forget()
        for lock in ("driver.lock", "jvm.lock"):
            (tmp_path / "checkpoints" / "exact" / "locks" / lock).unlink()
        second_redo = proxy.hold(ApiKey.EndTxn, first=len(commits.requests) + 2)
        with started(tmp_path, proxy, topic, log="second") as second:
            wait_until(lambda: second_redo.requests, second)
            process.send(signal.SIGCONT)
            assert first.wait(SECONDS) != 0, "it was superseded"
            second_redo.release()
            assert [reply_of(answer) for answer in second_redo.wait_for_answers()] == [Reply.PRODUCER_FENCED]
            assert second.wait(SECONDS) == 0, second.tail()
    both_have_every_row_once(tmp_path, broker, topic, FEW)


def started(folder: Path, proxy: Proxy, topic: str, *, failpoints: str = "", log: str = "log") -> Driver:
    arguments = (str(folder), proxy.servers, topic, "60")
    return Driver(PROGRAM, *arguments, log=folder / log, failpoints=failpoints)


def lose_a_decided_epoch(folder: Path, broker: Broker, proxy: Proxy, topic: str) -> None:
    """A driver dies when epoch 1 is decided and not committed; the broker aborts its transactions."""
    hold = folder / "decided"
    with started(folder, proxy, topic, failpoints=f"commit.before@1=hold:{hold}") as driver:
        wait_until(hold.exists, driver)
        driver.kill_all()
    wire = wire_of(Clients(broker.servers))
    for name in open_transactions(broker.servers, ids_of(folder)):
        wire.fence(name, 60_000)


def sent_for_the_first_time() -> Callable[[bytes], bool]:
    """Whether no request was like this one, but for its number."""
    seen = set[bytes]()

    def is_new(request: bytes) -> bool:
        content = request[:4] + request[8:]
        return content not in seen and not seen.add(content)

    return is_new


def process_of(driver: Driver) -> Process:
    seen = _look(driver.process.pid)
    assert seen is not None
    return Process(pid=driver.process.pid, since=seen[1])


def wait_until(holds: Callable[[], object], driver: Driver) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert driver.process.poll() is None, f"the driver ended:\n{driver.tail()}"
        assert time.monotonic() < end, driver.tail()
        time.sleep(0.02)
