"""Which prepared record counts: by offsets and state ids, else the newest run's."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish import choose
from tidegate.core.ledger import Query, of_sink
from tidegate.core.records import Attempt, Committable, Prepared, digest_of, encode
from tidegate.core.spark_log import canonical_state_ids

QUERY = Query(job="job", job_id="j0", generation=0, uid="query", sources=("source",), sinks=("a", "b"))
OFFSETS = b'v1\n{"batchWatermarkMs":0,"conf":{}}\n4'
OTHER = b'v1\n{"batchWatermarkMs":0,"conf":{}}\n5'
STATELESS = b'v1\n{"nextBatchWatermarkMs":0}'


def stateful(state_id: str) -> bytes:
    return b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["' + state_id.encode() + b'"]]}}'


def prepared(run: int, state_id: str | None = None, offsets: bytes = OFFSETS) -> tuple[bytes, Prepared]:
    ids = None if state_id is None else canonical_state_ids({"0": [[state_id]]})
    record = Prepared(epoch=3, run=run, committables=(), start_positions=None, offsets=offsets, state_ids=ids)
    return encode(record), record


def test_the_record_with_the_ids_of_the_log_counts_whoever_is_newer() -> None:
    old, new = prepared(1, "x"), prepared(2, "y")
    chosen = choose(QUERY, 3, OFFSETS, stateful("x"), [old, new])
    assert (chosen.run, chosen.prepared_digest, chosen.commits) == (1, digest_of(old[0]), stateful("x"))


def test_without_ids_the_newest_run_counts() -> None:
    assert choose(QUERY, 3, OFFSETS, STATELESS, [prepared(2), prepared(1)]).run == 2


def test_the_rows_of_state_are_those_of_the_record_that_counts() -> None:
    records = [
        msgspec.structs.replace(prepared(run, state)[1], state_rows={"0": run}) for run, state in ((1, "x"), (2, "y"))
    ]
    assert choose(QUERY, 3, OFFSETS, stateful("x"), [(encode(each), each) for each in records]).state_rows == {"0": 1}


def test_a_torn_offsets_entry_is_taken_from_the_record() -> None:
    chosen = choose(QUERY, 3, b"v1", STATELESS, [prepared(1)])
    assert chosen.offsets == OFFSETS


def test_where_another_driver_may_live_overwritten_offsets_are_no_hole() -> None:
    remote = dataclasses.replace(QUERY, local_lease=False)
    by_ids = choose(remote, 3, OTHER, stateful("x"), [prepared(1, "x"), prepared(2, "y", OTHER)])
    assert (by_ids.run, by_ids.offsets) == (1, OFFSETS)
    newest = choose(remote, 3, OFFSETS, STATELESS, [prepared(1), prepared(2, offsets=OTHER)])
    assert (newest.run, newest.offsets) == (2, OTHER)


@pytest.mark.parametrize(
    ("offsets", "commits", "candidates", "code"),
    [
        (OFFSETS, None, [prepared(1)], Code.LEDGER_HOLE),
        (OFFSETS, b"v1", [prepared(1)], Code.LEDGER_HOLE),
        (OFFSETS, STATELESS, [], Code.LEDGER_HOLE),
        (OTHER, STATELESS, [prepared(1)], Code.LEDGER_HOLE),
        (OFFSETS, stateful("x"), [prepared(1, "y"), prepared(2)], Code.LEDGER_HOLE),
        (OFFSETS, stateful("x"), [prepared(1, "x"), prepared(2, "x")], Code.LEDGER_AMBIGUOUS),
        (None, STATELESS, [prepared(1), prepared(2, offsets=OTHER)], Code.LEDGER_AMBIGUOUS),
    ],
)
def test_what_cannot_be_decided_is_refused(
    offsets: bytes | None, commits: bytes | None, candidates: list[tuple[bytes, Prepared]], code: Code
) -> None:
    with pytest.raises(TidegateError) as refused:
        choose(QUERY, 3, offsets, commits, candidates)
    assert refused.value.catalogue_entry is code


def test_the_committables_of_a_sink_come_in_the_order_of_their_tasks() -> None:
    def of(sink: str, task: int) -> Committable:
        attempt = Attempt(sink=QUERY.sink(sink), run=1, run_token="t", epoch=3, task=task, task_attempt=0)
        return Committable(attempt=attempt, rows=1, digest=f"{sink}{task}")

    record = Prepared(
        epoch=3,
        run=1,
        committables=(of("b", 1), of("a", 1), of("b", 0)),
        start_positions=None,
        offsets=OFFSETS,
        state_ids=None,
    )
    assert [committable.digest for committable in of_sink(record.committables, "b")] == ["b0", "b1"]
