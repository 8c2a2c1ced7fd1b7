"""The simulator's broker against real ones: the simulation proves nothing about answers that no broker gives.

Every configuration runs the same sequences each time. To run more, and others each time:

    TIDEGATE_SEQUENCES=500 ./dev test tests/kafka/test_kafka_conformance.py -k random

A sequence that fails is made as short as possible and printed as a list of steps.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import pytest
from hypothesis import Phase, given, settings

from tests.kafka.conformance.both import ALL, SHORT_MS, Both, Identity
from tests.kafka.conformance.real import RealBroker
from tests.kafka.conformance.steps import Step, run, sequences
from tests.simulator.kafka import Reply
from tests.support.today import sampled
from tidegate.kafka.replies import KafkaRefused
from tidegate.kafka.replies import Reply as Code
from tidegate.kafka.wire import Wire
from tidegate.testing.kafka import Broker

_SEQUENCES = 30
_MET = {
    *(reply.value for reply in Reply),
    *("write taken", "write refused", "evidence taken", "evidence refused"),
    *("aborted by hand", "timed out", "evidence deleted", "rows seen"),
}
_QUICK = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
_FORGETFUL = {
    "transactional.id.expiration.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
}


CONFIGURATIONS = sampled(
    [
        pytest.param(("3.9.1", None), id="3.9"),
        pytest.param(("4.1.1", 2), id="4.1-tv2"),
        pytest.param(("4.1.1", 0), id="4.1-tv0"),
    ],
    every=2,
)


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker at a time; no other test has it."""
    version, transaction_version = request.param
    with Broker.start(
        tmp_path_factory.mktemp("conformance"),
        version=version,
        transaction_version=transaction_version,
        settings=_QUICK,
    ) as broker:
        yield broker


@pytest.fixture(scope="module")
def real(kafka: Broker) -> Iterator[RealBroker]:
    real = RealBroker(kafka, kafka._record().version)
    yield real
    real.close()


@pytest.fixture
def both(real: RealBroker) -> Iterator[Both]:
    """Whatever a test has done with them, in the end both must have the same rows and nothing open."""
    both = Both(real)
    yield both
    both.close()


def prepared(both: Both, identity: Identity, partition: int = 0) -> tuple[int, int]:
    """Numbers of the row and of the evidence."""
    row, evidence = both.write(identity, partition), both.prove(identity)
    assert row is not None
    assert evidence is not None
    return row, evidence


def seen(both: Both) -> list[int]:
    """What both show to a read_committed reader, when they stand the same."""
    both.compare()
    return sorted(chain(*both.compare_visible().values()))


# --- random sequences --------------------------------------------------------------------------------------


@pytest.mark.timeout(7200)
def test_random_sequences_end_the_same_on_both(real: RealBroker) -> None:
    more = os.environ.get("TIDEGATE_SEQUENCES")
    met = Counter[str]()

    @settings(
        max_examples=int(more or _SEQUENCES),
        derandomize=more is None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
    )
    @given(sequences())
    def run_each(steps: list[Step]) -> None:
        both = Both(real)
        run(both, steps)
        met.update(both.met)

    run_each()
    assert set(met) >= _MET, f"the sequences are too tame to say anything: {met}"


# --- what the protocol stands on ---------------------------------------------------------------------------


def test_a_stale_commit_hits_nothing(both: Both) -> None:
    old = both.init("a", by_client=True)
    prepared(both, old)
    newer = both.init("a", by_client=True)
    row, evidence = prepared(both, newer)
    assert [both.commit(old), both.commit(old)] == [Reply.FENCED, Reply.FENCED]
    assert both.is_open(newer)
    assert seen(both) == []
    assert both.commit(newer) is Reply.NONE
    assert seen(both) == [row]
    assert both.commit(old) is Reply.FENCED
    assert both.simulated.evidence(old.name) == evidence


def test_a_fenced_worker_can_neither_write_nor_prove(both: Both) -> None:
    old = both.init("a", by_client=True)
    prepared(both, old)
    both.init("a")
    assert [both.write(old, at) for at in ALL] == [None, None, None]
    assert both.prove(old) is None
    assert [both.write(old, 0, late=True), both.prove(old, late=True)] == [None, None]
    assert seen(both) == []


def test_a_commit_that_is_repeated_says_so_again_and_changes_nothing(both: Both) -> None:
    identity = both.init("a", by_client=True)
    row, evidence = prepared(both, identity)
    assert [both.commit(identity) for _ in range(3)] == [Reply.NONE] * 3
    assert seen(both) == [row]
    assert both.simulated.evidence(identity.name) == evidence


def test_a_commit_that_is_repeated_hits_a_second_transaction_of_the_same_identity(both: Both) -> None:
    """Why an identity serves one attempt."""
    identity = both.init("a")
    first, _ = prepared(both, identity)
    assert both.commit(identity) is Reply.NONE
    undecided, _ = prepared(both, identity, partition=1)
    assert both.commit(identity) is Reply.NONE
    assert seen(both) == [first, undecided]


def test_once_its_id_is_opened_again_a_commit_that_was_done_looks_like_one_that_was_not(both: Both) -> None:
    done, lost = both.init("a"), both.init("b")
    row, evidence = prepared(both, done)
    prepared(both, lost)
    both.commit(done)
    both.init("a")
    both.init("b")
    assert both.commit(done) is both.commit(lost) is Reply.FENCED
    both.compare()
    assert [both.simulated.evidence(each.name) for each in (done, lost)] == [evidence, None], "only evidence tells"
    assert seen(both) == [row]


def test_a_commit_under_an_unknown_id_or_of_anothers_producer_hits_nothing(both: Both) -> None:
    mine, other = both.init("a"), both.init("b")
    prepared(both, mine)
    prepared(both, other, partition=1)
    for wrong in (both.unknown(mine), both.of_another(mine, other), both.of_another(other, mine)):
        assert both.commit(wrong) is Reply.NO_MAPPING
    assert both.is_open(mine)
    assert both.is_open(other)
    assert seen(both) == []


def test_an_empty_transaction_cannot_be_committed(both: Both) -> None:
    identity = both.init("a", by_client=True)
    assert both.commit(identity) is Reply.INVALID_STATE
    row, _ = prepared(both, identity)
    assert both.commit(identity) is Reply.NONE
    assert seen(both) == [row]


def test_a_transaction_that_timed_out_is_gone_and_its_commit_looks_fenced(both: Both) -> None:
    identity = both.init("a", by_client=True, timeout_ms=SHORT_MS)
    prepared(both, identity)
    both.time_out(identity)
    assert both.commit(identity) is Reply.FENCED
    assert both.write(identity, 1) is None
    assert both.prove(identity) is None
    assert both.simulated.evidence(identity.name) is None
    assert seen(both) == []


def test_evidence_comes_with_the_commit_and_not_before(both: Both) -> None:
    identity = both.init("a")
    _, first = prepared(both, identity)
    both.compare()
    assert both.real.evidence(identity.name, stable=False) is None
    both.commit(identity)
    both.compare()
    assert both.real.evidence(identity.name, stable=True) == first
    again = both.init("a")
    prepared(both, again)
    both.init("a")
    both.compare()
    assert both.real.evidence(identity.name, stable=True) == first, "what was aborted proves nothing"


def test_pending_evidence_is_waited_for_and_never_taken_for_absent(both: Both) -> None:
    identity = both.init("a")
    _, evidence = prepared(both, identity)
    impatient = Wire(both.real.clients, patience_seconds=1)
    with pytest.raises(KafkaRefused) as refused:
        impatient.marks({identity.name: both.real.topic})
    impatient.close()
    assert refused.value.code == Code.UNSTABLE_OFFSET_COMMIT
    later = threading.Timer(0.3, lambda: both.commit(identity))
    later.start()
    assert both.real.evidence(identity.name, stable=True) == evidence
    later.join()


def test_pending_evidence_whose_topic_is_not_named_is_not_waited_for(both: Both) -> None:
    identity = both.init("a")
    prepared(both, identity)
    assert both.real.hands.marks({identity.name: None}) == {identity.name: []}


def test_an_open_transaction_hides_what_was_committed_behind_it(both: Both) -> None:
    before, behind = both.init("a"), both.init("b")
    both.write(before, 0)
    row, _ = prepared(both, behind)
    elsewhere = both.write(behind, 1)
    both.commit(behind)
    assert both.real.blocked() == {0}
    assert seen(both) == [elsewhere]
    both.init("a")
    assert both.real.blocked() == set()
    assert seen(both) == [row, elsewhere]


def test_aborted_rows_before_an_open_transaction_are_read_past(both: Both) -> None:
    aborted, behind = both.init("a"), both.init("b")
    both.write(aborted, 0)
    both.write(behind, 0)
    both.init("a")
    assert both.real.blocked() == {0}
    assert seen(both) == []


def test_a_transaction_that_is_aborted_by_hand_may_be_opened_again_without_its_rows(both: Both) -> None:
    """Why a prepared transaction must hold every partition that was written, and why abort is fencing."""
    identity = both.init("a", by_client=True)
    both.write(identity, 0)
    both.abort_by_hand(identity)
    assert both.commit(identity) is Reply.INVALID_STATE
    evidence = both.prove(identity)
    assert both.real.open_under(identity.name) == (identity.real, set())
    assert both.commit(identity) is Reply.NONE
    assert both.simulated.evidence(identity.name) == evidence
    assert seen(both) == []


def test_evidence_that_was_deleted_is_absent_though_the_commit_was_done(both: Both) -> None:
    identity = both.init("a")
    row, _ = prepared(both, identity)
    both.commit(identity)
    both.delete_evidence()
    both.compare()
    assert both.real.evidence(identity.name, stable=True) is None
    assert both.commit(identity) is Reply.NONE
    assert seen(both) == [row]


# --- what real brokers alone can do ------------------------------------------------------------------------


def test_a_write_that_comes_after_the_end_is_refused_unless_its_partition_is_added_again(real: RealBroker) -> None:
    both = Both(real)
    for end in (both.abort_by_hand, both.commit):
        identity = both.init("a")
        both.write(identity, 0)
        end(identity)
        assert not real.write(identity.real, 0, b"0", adds=False)
        assert not real.prove(identity.real, 0, adds=False)
        both.compare()
    both.close()


def test_late_evidence_is_refused_but_kafka_3_forgets_what_is_pending(real: RealBroker) -> None:
    """Its group coordinator has pending evidence by producer id, whatever the epoch. What it forgets comes back when
    it reads its log again: until then a commit that was done seems to have left no evidence."""
    both = Both(real)
    old = both.init("a")
    _, before = prepared(both, old)
    both.commit(old)
    new = both.init("a")
    _, evidence = prepared(both, new)
    assert not real.prove(old.real, 0, adds=False)
    assert real.hands.mark_pending(new.name, real.topic) is not real.loses_pending_evidence
    assert real.commit(new.real) == Code.NONE
    assert real.evidence(new.name, stable=True) == (before if real.loses_pending_evidence else evidence)


def test_deleting_a_group_takes_the_evidence_that_is_pending_too(real: RealBroker) -> None:
    both = Both(real)
    identity = both.init("a")
    prepared(both, identity)
    real.hands.delete_groups([identity.name])
    assert not real.hands.mark_pending(identity.name, real.topic)
    assert real.commit(identity.real) == Code.NONE
    assert real.evidence(identity.name, stable=True) is None


def test_an_abort_past_the_coordinator_takes_the_rows_and_the_commit_does_not_say_so(real: RealBroker) -> None:
    both = Both(real)
    identity = both.init("a")
    _, evidence = prepared(both, identity)
    assert real.hands.mark_partition_aborted(identity.real, real.topic, 0) == Code.NONE
    assert real.open_under(identity.name) == (identity.real, {0})
    assert real.commit(identity.real) == Code.NONE
    assert real.evidence(identity.name, stable=True) == evidence
    assert real.visible()[0] == []


# --- last of a configuration: the broker forgets from here on ----------------------------------------------


def test_ids_that_expired_are_unknown_and_get_another_producer(kafka: Broker, both: Both) -> None:
    done, undecided = both.init("a"), both.init("b")
    row, evidence = prepared(both, done)
    prepared(both, undecided, partition=1)
    both.commit(done)
    kafka.stop()
    Broker.start(kafka.folder, settings=_FORGETFUL)
    both.expire_ids()
    assert both.commit(done) is Reply.NO_MAPPING
    assert both.simulated.evidence(done.name) == evidence
    assert both.is_open(undecided), "an open transaction does not expire"
    assert both.commit(undecided) is Reply.NONE
    assert both.init("a").real.producer_id != done.real.producer_id
    assert both.commit(done) is Reply.NO_MAPPING
    assert row in seen(both)
