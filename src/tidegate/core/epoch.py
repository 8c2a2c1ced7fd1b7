"""One epoch, from the moment Spark hands it over until it is prepared. Spark writes `commits/N` after this."""

from __future__ import annotations

import msgspec

from tidegate.core.effects import (
    Compute,
    Computed,
    OwnPlan,
    Steps,
    SyncCheckpoint,
    Tell,
    await_finished,
    compute,
    peek,
    put_if_absent,
    recall,
)
from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish_steadily import decide_and_look
from tidegate.core.happenings import EpochPrepared
from tidegate.core.ledger import (
    OFFSETS,
    Query,
    entry,
    prepared_name,
    read_finished,
    recall_decided,
    stop_if_superseded,
)
from tidegate.core.records import Decided, Prepared, Run, encode
from tidegate.core.spark_log import OffsetsEntry, goes_back, parse_commits, parse_offsets, same_position
from tidegate.core.straight import show_straight


def run_epoch(query: Query, run: Run, epoch: int) -> Steps[Prepared]:
    """Let epoch `epoch` in, compute it once for all sinks, and write *prepared/N.R*.

    Only after that may the caller return to Spark. Raises when the run has to end instead; the epoch is then
    undecided and its input is replayed.
    """
    finished = yield from _let_in(query, run, epoch)
    computed = yield from compute(Compute(epoch, run.run, run.token, finished))
    yield SyncCheckpoint()
    yield from stop_if_superseded(query, run)
    record = yield from _record(query, run, epoch, computed)
    waiting = yield from show_straight(query, epoch, record.committables)
    record = msgspec.structs.replace(record, committables=waiting)
    created = yield from put_if_absent(prepared_name(epoch, run.run), encode(record), "prepared")
    if not created:
        raise _torn(query, epoch, f"{prepared_name(epoch, run.run)} is there already")
    yield Tell(EpochPrepared(epoch=epoch, rows=sum(committable.rows for committable in computed.committables)))
    return record


def _let_in(query: Query, run: Run, epoch: int) -> Steps[int]:
    """Every epoch below is decided, by the ledger and not by memory; at most `max_concurrent` are unfinished. Returns
    the newest finished epoch.

    What this run's finisher has finished stands in the ledger. What another run has finished, a newer one has.
    """
    yield from stop_if_superseded(query, run)
    finished = yield from await_finished(epoch - query.max_concurrent)
    if (yield from recall(prepared_name(epoch - 1, run.run))) is None:
        # The first epoch of this run: Spark's log may have been replaced since recovery has read it.
        finished = max(finished, (yield from read_finished()))
    if epoch <= finished:
        raise TidegateError(
            Code.EPOCH_FINISHED,
            expected=f"an epoch above {finished}, the newest finished one",
            found=f"epoch {epoch}",
            where=str(query),
        )
    for older in range(finished + 1, epoch):
        yield from decide_and_look(query, run, older)
    return finished


def _record(query: Query, run: Run, epoch: int, computed: Computed) -> Steps[Prepared]:
    name = entry(OFFSETS, epoch)
    data = yield from peek(name)
    offsets = parse_offsets(data)
    if data is None or offsets is None:
        raise _torn(query, epoch, f"{name} is missing or torn")
    strangers = [c for c in computed.committables if (c.attempt.epoch, c.attempt.run) != (epoch, run.run)]
    if strangers:
        raise _torn(query, epoch, f"committables of {strangers[0].attempt.name}")
    before = yield from recall_decided(epoch - 1)
    if computed.own is not None:
        _check_own_plan(query, epoch, computed.own, computed.start_positions, offsets, before)
    if before is not None:
        _check_positions(query, epoch, parse_offsets(before.offsets), offsets, computed.start_positions)
    return Prepared(
        epoch=epoch,
        run=run.run,
        committables=computed.committables,
        start_positions=computed.start_positions,
        offsets=data,
        state_ids=computed.state_ids,
        state_rows=computed.state_rows,
        operator_uids=computed.operator_uids,
        state_files=computed.state_files,
    )


def _check_own_plan(
    query: Query,
    epoch: int,
    own: OwnPlan,
    starts: tuple[str | None, ...] | None,
    offsets: OffsetsEntry,
    before: Decided | None,
) -> None:
    """The run has computed what `offsets/N` says now, and stands on what *decided/N-1* says.

    On an object store a driver that was paused can overwrite an entry of Spark's log after this run has read or written
    it. Then the state and the positions of this run are not the surviving ones. The run ends, and recovery restores the
    log: nothing of the epoch is prepared yet.
    """
    if not _same_positions(own.ends, offsets.positions) or own.watermark_ms != offsets.watermark_ms:
        raise _torn(query, epoch, f"another driver has overwritten {entry(OFFSETS, epoch)}")
    if before is None:
        return
    ended, logged = parse_offsets(before.offsets), parse_commits(before.commits)
    if ended is not None and starts is not None and not _same_positions(starts, ended.positions):
        raise _torn(query, epoch, f"this run did not end epoch {epoch - 1} where the decision on it ends it")
    if logged is not None and own.base_ids != logged.state_ids:
        raise _torn(query, epoch, f"the state of this run after epoch {epoch - 1} is not the one that was decided on")


def _same_positions(some: tuple[str | None, ...], others: tuple[str | None, ...]) -> bool:
    return len(some) == len(others) and all(map(same_position, some, others))


def _check_positions(
    query: Query,
    epoch: int,
    before: OffsetsEntry | None,
    offsets: OffsetsEntry,
    starts: tuple[str | None, ...] | None,
) -> None:
    """The start of N equals the end of decided N-1, and nothing goes back. Spark checks nothing of this."""
    ends = offsets.positions if before is None else before.positions
    begun = ends if starts is None else starts
    if not len(ends) == len(begun) == len(offsets.positions) == len(query.sources):
        found = f"{len(ends)} positions before, {len(begun)} at the start, {len(offsets.positions)} at the end"
        raise _torn(query, epoch, f"{found}, for {len(query.sources)} sources")
    for index, (end, start, now) in enumerate(zip(ends, begun, offsets.positions, strict=True)):
        if not same_position(end, start) or goes_back(end, now):
            raise TidegateError(
                Code.OFFSETS_BACKWARDS,
                expected=f"epoch {epoch} to start at {end}, where epoch {epoch - 1} ended",
                found=f"start {start}, end {now}",
                where=f"{query}, source {query.sources[index]}",
            )


def _torn(query: Query, epoch: int, found: str) -> TidegateError:
    return TidegateError(
        Code.EPOCH_TORN,
        expected="one offsets entry with a position per source, and committables of this run",
        found=found,
        where=f"{query}, epoch {epoch}",
    )
