"""Before Spark starts a query: claim a run, decide and finish its epochs, and put Spark's log in order.

How it works. A process may have died between any two effects, so recovery knows nothing but the records. From them it
brings the query to the one situation in which Spark may start: every decided epoch is done, nothing of an undecided
epoch is left, and Spark's log holds the decisions. Spark then runs the newest decided epoch plus one.

`open_run` does it in this order, and each step needs the ones before it:

1. *runs/R* is claimed, create-if-absent. Its number is above all others, so an older run that is still alive sees
   that it is superseded when it looks next, and stops.
2. *start* is written, or compared with the program: another job id, other sources or sinks, other operators are
   refused before anything is decided.
3. Each epoch that `commits/N` shows is decided: *decided/N* names the one prepared record that fits the surviving
   state. This is the only step that makes a new decision.
4. *finished_through* is advanced over epochs whose *done* a dead run wrote last.
5. The evidence of each sink is compared with the ledger. It comes before the first commit: a sink of another job, or
   one that is ahead or behind, must not be written into.
6. Each decided epoch is finished, oldest first, by `finish.finish_epoch`: the code that a living run uses.
7. In each sink whose rows are visible inside their epoch, this run fences the earlier ones. It comes after steps 5 and
   6, which find such a target as the dead run has left it.
8. What dead runs prepared for undecided epochs is given up: records first, then journals, then open transactions,
   which are fenced. It comes after the decisions, because a decided epoch's transactions look the same as an
   undecided one's.
9. Old records and journals are cleaned up.
10. Spark's log is mended: entries of decided epochs are made equal to the decisions, undecided ones beyond the next
   epoch are set aside, and a due epoch without data is added. `recovery_plan` plans it, as a pure function. It comes
   last: the entries are what the decisions were made from.

Why a second crash is harmless. Every record is created under a name that says what it is, and the first one counts. A
commit that is repeated is answered `already`, or its evidence is looked for after a fence. A step that was done finds
nothing to do. So the next recovery starts at step 1 again and finds less.

`close_run` is steps 3 and 8 for a run that ends in order; `finish_decided` is steps 1 and 3 to 6 for a job that does
not run.
"""

from __future__ import annotations

from tidegate.core.effects import (
    AbortOpen,
    Delete,
    Replace,
    Steps,
    Tell,
    begin_run,
    discard_from,
    get,
    introduce,
    list_names,
    list_open,
    put_if_absent,
    read_position,
    set_aside,
)
from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish import catch_up, clean_up, decide, finish_epoch
from tidegate.core.generation_start import begin_generation
from tidegate.core.happenings import DueEpochAdded, LogRestored, LogSetAside, TransactionsAborted
from tidegate.core.ledger import (
    COMMITS,
    DECIDED,
    OFFSETS,
    RUNS,
    Query,
    entry,
    newest_committed,
    numbers,
    prepared_entries,
    prepared_name,
    read_decided,
    read_finished,
    read_finished_through,
    stop_if_superseded,
)
from tidegate.core.levels import Level
from tidegate.core.records import Decided, FinishedThrough, Position, Run, SinkProgress, encode
from tidegate.core.recovery_plan import (
    AddDueEpoch,
    FoundLog,
    PutAside,
    RestoreEntry,
    due_epoch,
    plan_recovery,
    position_of,
    source_log,
)
from tidegate.core.spark_log import log_offset, parse_offsets, source_entry
from tidegate.core.states import AT_RECOVERY, FINISHING, EpochState, epoch_state


def open_run(query: Query) -> Steps[Run]:
    """Open a run of the query: every decided epoch is finished, and nothing of an undecided epoch is left.

    When this returns, Spark may start the query. Its first epoch is the newest decided one plus one.
    """
    run = yield from _claim_run()
    yield from begin_generation(query, run)
    newest, unfinished = yield from _settle_decisions(query)
    yield from catch_up(query, run)
    yield from _check_sinks(query, run, newest)
    for epoch in unfinished:
        yield from finish_epoch(query, run, epoch)
    yield from stop_if_superseded(query, run)
    yield from _fence_earlier_runs(query, run)
    yield from _give_up_undecided(query, newest)
    yield from clean_up(query)
    yield from _mend_log(query, run)
    return run


def close_run(query: Query, run: Run) -> Steps[bool]:
    """End a run whose stream thread and finisher have ended: abort its undecided epoch.

    Returns True if a no-data epoch is due: the next start runs it before any new row, a bounded job right away.
    """
    yield from stop_if_superseded(query, run)
    newest, _ = yield from _settle_decisions(query)
    yield from _give_up_undecided(query, newest)
    decided = yield from read_decided(newest)
    return decided is not None and bool(due_epoch(decided))


def finish_decided(query: Query, through: int) -> Steps[list[int]]:
    """The first half of recovery, without a start of Spark: finish the decided epochs up to `through`. Returns these
    epochs.

    For commands, while no run of the job is alive; the locks must be held. It claims a run, as any other finisher does.
    So an older run that lives in spite of the locks stops. Undecided epochs and Spark's log stay unchanged for the next
    start.
    """
    _, due = yield from finish_with_a_run(query, through)
    return due


def finish_with_a_run(query: Query, through: int | None = None) -> Steps[tuple[Run, list[int]]]:
    """`finish_decided`, through all decided epochs if `through` is None. Returns the claimed run, too."""
    run = yield from _claim_run()
    last, unfinished = yield from _settle_decisions(query)
    yield from catch_up(query, run)
    due = [epoch for epoch in unfinished if through is None or epoch <= through]
    if due:
        yield from _check_sinks(query, run, last)
    for epoch in due:
        yield from finish_epoch(query, run, epoch)
    return run, due


# --- the steps, in their order -----------------------------------------------------------------------------


def _claim_run() -> Steps[Run]:
    """*runs/R*, before anything else: a number that only grows and a random token."""
    token, host, process, since = yield from introduce()
    while True:
        number = max((yield from numbers(RUNS)), default=0) + 1
        run = Run(run=number, token=token, host=host, process=process, since=since)
        if (yield from put_if_absent(entry(RUNS, number), encode(run), "run")):
            return run


def _settle_decisions(query: Query) -> Steps[tuple[int, list[int]]]:
    """Decide every due epoch. Returns the newest decided epoch, and those that are not finished yet."""
    states = yield from _survey()
    unfinished = [epoch for epoch, state in states.items() if AT_RECOVERY[state] in FINISHING]
    for epoch in unfinished:
        yield from decide(query, epoch)
    return max(states) - 1, unfinished


def _survey() -> Steps[dict[int, EpochState]]:
    """The state of every epoch from the newest finished one to Spark's next one, in order."""
    finished = yield from read_finished()
    committed = yield from newest_committed()
    decided = yield from numbers(DECIDED)
    started = yield from numbers(OFFSETS)
    prepared = yield from prepared_entries()
    logged = max(finished, *decided, finished if committed is None else committed)
    return {
        epoch: epoch_state(
            epoch,
            finished=finished,
            logged=logged,
            decided=set(decided),
            prepared={number for number, _ in prepared},
            started=set(started),
        )
        for epoch in range(finished, logged + 2)
    }


def _check_sinks(query: Query, run: Run, newest: int) -> Steps[None]:
    """Compare each sink's evidence with the ledger before the first commit into it. `newest`: the newest decided epoch.

    A run that a newer run has superseded does not raise: the evidence may be that of the newer run.
    """
    finished = yield from read_finished_through()
    for sink in (each for each in query.sinks if each not in query.forgetful):
        error = judge_position(query, sink, (yield from read_position(sink)), finished, newest)
        if error is not None:
            yield from stop_if_superseded(query, run)
            raise error


def _fence_earlier_runs(query: Query, run: Run) -> Steps[None]:
    """From now on no earlier run writes into a sink whose rows are visible before their epoch is decided."""
    for sink in query.fencing:
        later = yield from begin_run(sink, run.run, run.token)
        if later is not None:
            yield from stop_if_superseded(query, run)
            mine = f"no run after run {run.run} of generation {query.generation}"
            raise _sink_error(query, sink, Code.SINK_AHEAD, mine, later)


def _give_up_undecided(query: Query, newest: int) -> Steps[None]:
    """Remove the undecided work of dead runs: records first, then journals; then open transactions are fenced.

    Only if the lease proves that no older run is alive: otherwise one may still write `commits/N`.
    """
    given_up = 0
    for sink in query.sinks:
        orphans = tuple((yield from list_open(sink)))
        if orphans:
            yield AbortOpen(sink, orphans)
            given_up += len(orphans)
    if query.local_lease:
        for epoch, run in (yield from prepared_entries()):
            if epoch > newest:
                yield Delete(prepared_name(epoch, run), "recover.dropped")
        given_up += yield from discard_from(newest + 1)
    if given_up:
        yield Tell(TransactionsAborted(given_up))


def _mend_log(query: Query, run: Run) -> Steps[None]:
    found = yield from _look_at_log(query)
    for step in plan_recovery(found):
        yield from stop_if_superseded(query, run)
        match step:
            case RestoreEntry(name, data):
                yield Delete(_checksum_of(name), "heal.checksum")
                yield Replace(name, data, "heal.entry")
                yield Tell(LogRestored(name))
            case PutAside(name, seen):
                yield from _put_aside(name, seen)
            case AddDueEpoch(epoch, data, watermark_ms):
                name = entry(OFFSETS, epoch)
                yield Delete(_checksum_of(name), "heal.checksum")
                if (yield from put_if_absent(name, data, "heal.entry")):
                    yield Tell(DueEpochAdded(epoch, watermark_ms))


def _look_at_log(query: Query) -> Steps[FoundLog]:
    """Read Spark's log first, then the decisions: an epoch that an older, still living run adds in between is decided
    then.
    """
    log: dict[str, dict[int, bytes]] = {OFFSETS: {}, COMMITS: {}}
    for folder, entries in log.items():
        for number in (yield from numbers(folder)):
            data = yield from get(entry(folder, number))
            entries[number] = b"" if data is None else data
    newest, _ = yield from _settle_decisions(query)
    decided: dict[int, Decided] = {}
    for number in (yield from numbers(DECIDED)):
        record = yield from read_decided(number)
        if record is not None:
            decided[number] = record
    sources = yield from _look_at_sources(query, decided.get(newest), newest)
    return FoundLog(newest=newest, decided=decided, log=log, sources=sources, places=len(query.sources))


def _look_at_sources(query: Query, newest: Decided | None, epoch: int) -> Steps[dict[int, dict[str, bytes]]]:
    """The undecided entries in the logs of Spark's own sources. After a decided epoch, only entries of file sources
    count.

    Positions are numbered by the leaves of a plan, these logs by its sources. If a source occurs twice in a query, the
    numbers differ, and nothing is checked.
    """
    found: dict[int, dict[str, bytes]] = {}
    before = None if newest is None else parse_offsets(newest.offsets)
    each_once = len(set(query.sources)) == len(query.sources)
    for source in range(len(query.sources) if each_once else 0):
        position = position_of(before, source)
        reached = -1 if position is None else log_offset(position)  # without a position none of it is decided
        if reached is None or (before is None and epoch >= 0):
            continue
        found[source] = {}
        for name in (yield from list_names(source_log(source))):
            number = source_entry(name)
            if number is not None and number > reached:
                data = yield from get(f"{source_log(source)}/{name}")
                found[source][name] = b"" if data is None else data
    return found


def _checksum_of(name: str) -> str:
    folder, _, number = name.rpartition("/")
    return f"{folder}/.{number}.crc"


def _put_aside(name: str, seen: bytes) -> Steps[None]:
    kept_as = yield from set_aside(name, "heal.aside")
    if kept_as is None:
        return
    data = yield from get(kept_as)
    if data is not None and data != seen:
        yield from put_if_absent(name, data, "heal.put_back")
    else:
        yield Tell(LogSetAside(name, kept_as))


def judge_position(
    query: Query, sink: str, position: Position | None, finished: FinishedThrough | None, newest: int
) -> TidegateError | None:
    """The error of a sink's evidence at a start: it is of another job, ahead of the ledger, or behind it."""
    mine = None if finished is None else finished.sinks.get(sink)
    if position is None:
        if mine is None or sink in query.expiring:
            return None
        return _sink_error(query, sink, Code.SINK_BEHIND, _told(mine), "nothing", (0, -1, *_written_at(query, mine)))
    if position.job_id != query.job_id:
        mine_is, its_is = f"job id {query.job_id}", f"job id {position.job_id}"
        return _sink_error(query, sink, Code.SINK_OF_ANOTHER_JOB, mine_is, its_is, other=position.job_id)
    at = (position.generation, position.epoch)
    if at > (query.generation, newest):
        return _sink_error(
            query,
            sink,
            Code.SINK_AHEAD,
            f"nothing after epoch {newest} of generation {query.generation}",
            f"epoch {position.epoch} of generation {position.generation}",
        )
    if finished is None and newest < 0 and position.generation < query.generation and not _may_repeat(query):
        return _begins_over(query, sink, position)
    if mine is not None and at < _written_at(query, mine):
        older = mine.generation != 0 or position.generation != query.generation
        found = f"epoch {position.epoch}" + (f" of generation {position.generation}" if older else "")
        return _sink_error(query, sink, Code.SINK_BEHIND, _told(mine), found, (*at, *_written_at(query, mine)))
    if mine is not None and at == _written_at(query, mine) and position.digest != mine.digest:
        return _sink_error(query, sink, Code.SECOND_TIMELINE, f"digest {mine.digest}", f"digest {position.digest}")
    return None


def _written_at(query: Query, mine: SinkProgress) -> tuple[int, int]:
    """Generation and epoch of the newest evidence that a sink must have. Before a restored generation has written any
    rows, this is the evidence of its savepoint.
    """
    return mine.generation or query.generation, mine.epoch


def _told(mine: SinkProgress) -> str:
    return f"epoch {mine.epoch}" + (f" of generation {mine.generation}" if mine.generation else "")


def _may_repeat(query: Query) -> bool:
    """At-most-once opens a generation at every start, after all input that older ones have read."""
    return query.may_repeat or query.weakest is Level.AT_MOST_ONCE


def _begins_over(query: Query, sink: str, position: Position) -> TidegateError:
    """The error for a query that a restore left behind and that is in the program again. A restored query has its last
    epoch in its ledger; this one would read its input from the start, and repeat visible rows.
    """
    return TidegateError(
        Code.SINK_AHEAD,
        expected=f"nothing, because the query begins again in generation {query.generation}",
        found=f"epoch {position.epoch} of generation {position.generation}: all rows up to it would come again",
        where=f"{query}, evidence in sink {sink}",
        next_step="restore a savepoint that has the query, or give the query another uid and another target",
    )


_CHOICES = (
    "put the checkpoint folder and the sink back as they were together; or start under another job name into"
    " another target"
)
_FORGET = {
    Code.SINK_AHEAD: "; or begin anew, where the rows up to there may come again: tidegate forget {job}",
    Code.SINK_OF_ANOTHER_JOB: "; or, where the folder of that job is gone for good and its rows may come again:"
    " tidegate forget {job} --evidence-of {other}",
}
"""The next step for a user who has removed checkpoints by hand."""


_GAP = ("generation", "epoch", "lacks_generation", "lacks_epoch")
"""What a sink that is behind has, and what it lacks up to: details of its error."""


def _sink_error(
    query: Query, sink: str, code: Code, expected: str, found: str, gap: tuple[int, ...] = (), *, other: str = ""
) -> TidegateError:
    return TidegateError(
        code,
        expected=expected,
        found=found,
        where=f"{query}, evidence in sink {sink}",
        next_step=_CHOICES + _FORGET.get(code, "").format(job=query.job, other=other),
        details={"query": query.uid, "sink": sink, **dict(zip(_GAP, gap, strict=False))},
    )
