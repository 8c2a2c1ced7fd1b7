"""From Spark's `commits/N` to *done/N*: decide, commit, redo, finish, clean up.

How it works. An epoch is *logged* when `commits/N` is there, *decided* when *decided/N* is, and *done* when *done/N* is
(`states.EPOCH`). A logged epoch counts: its state survives and its input does not come again, so its rows must become
visible, once. A process may die between any two effects. Recovery then calls the functions of this file again.

`finish_epoch` does this, and each step needs the ones before it:

1. `decide` writes *decided/N*, create-if-absent. Two runs may have prepared the epoch, and `commits/N` does not say
   which of them wrote the surviving state. So the decision names the one prepared record with the offsets and state ids
   of Spark's log, by its digest, and keeps Spark's bytes, because Spark purges its log. After a death before this step
   recovery finds the same log and decides the same. After a death behind it, recovery reads the decision.
2. Each sink is asked to commit the decided transactions, until it has committed all of them. They become visible only
   now: before the decision another run's transactions might be the right ones. The sink keeps evidence together with
   the rows. After a death here recovery commits again; a sink answers `already` for what it has.
3. *done/N* is written when every sink has committed, so no record says more than the sinks hold. After a death before
   it, step 2 is repeated, without effect.
4. *finished_through* takes over the epoch and the evidence of its sinks. It never goes back, and outlives *done/N*.
   After a death before it, `catch_up` does this step at the next start.
5. `clean_up` removes the journals of done epochs, and old records. It comes last: a lost transaction is written again
   from its journal, so the journal stays until *done*. After a death here the next epoch removes the rest.

What a sink answers decides the state of a transaction (`states.TRANSACTION`). `retry`: it stays *committing*, and is
tried again. `unknown`: it is *suspect*. It is fenced first and its evidence is looked for then, because without the
fence a commit on its way could still arrive after the look. `lost`, or no evidence after the fence: it is written again
from its journal. Without a journal, or if the sink cannot tell, the job stops and says which rows are in question; it
never guesses.

Who does what. The finisher of a run (`finish_steadily`) and recovery do all steps, oldest epoch first. The start of
epoch N+1 also decides the epochs before it, because Spark may soon purge what a decision is made from; it commits
nothing. An older run may be alive in spite of the locks. So the question whether a newer run exists stands between a
decision and its commit, and before each further sink and try. The loser of a create-if-absent uses the record that won,
and a superseded run raises no verdict about data that its successor may have cleaned up.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.effects import (
    CleanThrough,
    Delete,
    FenceTransaction,
    Hesitate,
    Replace,
    Steps,
    Tell,
    commit_sink,
    get,
    look_for_evidence,
    put_if_absent,
    recall,
    redo_transaction,
)
from tidegate.core.errors import Code, TidegateError
from tidegate.core.happenings import DeadLettersWritten, EpochDecided, EpochDone, RowsShownAgain, TransactionRedone
from tidegate.core.ledger import (
    COMMITS,
    DECIDED,
    DONE,
    FINISHED_THROUGH,
    KEPT_AT_LEAST,
    OFFSETS,
    RUNS,
    RUNS_KEPT,
    RUNS_KEPT_WITHOUT_PROOF,
    Query,
    entry,
    newest_committed,
    numbers,
    of_sink,
    prepared_entries,
    prepared_name,
    read_decided,
    read_finished,
    read_finished_through,
    read_prepared,
    recall_finished_through,
    stop_if_superseded,
    superseded,
)
from tidegate.core.records import (
    Answer,
    Committable,
    Decided,
    Done,
    Evidence,
    FinishedThrough,
    Outcome,
    Prepared,
    Run,
    SinkProgress,
    decode,
    digest_of,
    encode,
    epoch_digest,
)
from tidegate.core.spark_log import CommitsEntry, parse_commits, parse_offsets
from tidegate.core.states import ANSWERED, SHOWN, TRANSACTION, TransactionEvent, TransactionState


def finish_epoch(query: Query, run: Run, epoch: int) -> Steps[None]:
    """Decide epoch `epoch`, which Spark's log or a decision shows, commit all its sinks, write *done*."""
    yield from stop_if_superseded(query, run)
    decided = yield from decide(query, epoch)
    if decided is None:
        raise superseded(query, run, f"epoch {epoch} was finished by another run")
    yield from stop_if_superseded(query, run)
    yield from finish_decided_epoch(query, run, decided)
    yield from clean_up(query)


def finish_decided_epoch(query: Query, run: Run, decided: Decided) -> Steps[Prepared]:
    """Commit all sinks of a decided epoch, write *done*. The caller has looked for a newer run after the decision."""
    epoch, prepared = decided.epoch, (yield from _chosen(query, run, decided))
    committables = [mine for sink in query.sinks if (mine := of_sink(prepared.committables, sink))]
    for number, mine in enumerate(committables):
        if number > 0:
            yield from stop_if_superseded(query, run)
        yield from _commit(query, run, decided, mine)
    done = Done(epoch=epoch, run=decided.run, prepared_digest=decided.prepared_digest)
    yield from put_if_absent(entry(DONE, epoch), encode(done), "done")
    reached = yield from _advance(epoch, prepared, (yield from recall_finished_through()))
    yield from _tell_dead_letters(query, prepared)
    rows = sum(committable.rows for committable in prepared.committables)
    yield Tell(EpochDone(epoch=epoch, rows=rows, reached=reached, transactions=len(prepared.committables)))
    return prepared


def _tell_dead_letters(query: Query, prepared: Prepared) -> Steps[None]:
    """Report the number of dead letters of a done epoch, if there are any."""
    dead = [each for each in prepared.committables if each.attempt.sink.sink == query.dead_letters]
    if dead:
        rows = sum(committable.rows for committable in dead)
        yield Tell(DeadLettersWritten(epoch=prepared.epoch, sink=dead[0].attempt.sink.sink, rows=rows))


# --- the decision ------------------------------------------------------------------------------------------


def decide(query: Query, epoch: int) -> Steps[Decided | None]:
    """*decided/N* for an epoch at or below the newest commits entry: the existing record, or a new one.

    A driver that loses the put uses the record that won. None if another run finished and cleaned the epoch while this
    driver was paused: then nothing may be committed.
    """
    standing = yield from read_decided(epoch)
    if standing is not None:
        return standing
    offsets = yield from get(entry(OFFSETS, epoch))
    commits = yield from get(entry(COMMITS, epoch))
    candidates = yield from read_prepared(epoch)
    standing = yield from read_decided(epoch)
    if standing is not None:  # by another thread in the meantime: Spark may have purged the basis of the decision
        return standing
    if (yield from read_finished()) >= epoch:
        return None
    if parse_commits(commits) is None:
        newest = yield from newest_committed()
        if newest is None or newest < epoch:
            raise _away(query, epoch)
        commits = yield from get(entry(COMMITS, epoch))
    record = choose(query, epoch, offsets, commits, candidates)
    created = yield from put_if_absent(entry(DECIDED, epoch), encode(record), "decision")
    if created and not (yield from withdraw_if_late(epoch, record)):
        yield Tell(EpochDecided(epoch=epoch, run=record.run))
    return (yield from read_decided(epoch))


def withdraw_if_late(epoch: int, record: Decided) -> Steps[bool]:
    """Withdraw a decision that was put after the epoch had been finished by another one. True if it was."""
    if (yield from read_finished()) < epoch or (yield from _done_with(epoch, record)):
        return False
    yield Delete(entry(DECIDED, epoch), "decision.withdrawn")
    return True


def _done_with(epoch: int, record: Decided) -> Steps[bool]:
    """True if the epoch was finished by exactly this decision: the finisher of the same run may have been faster."""
    name = entry(DONE, epoch)
    data = yield from get(name)
    return data is not None and decode(Done, data, name).prepared_digest == record.prepared_digest


def choose(
    query: Query,
    epoch: int,
    offsets: bytes | None,
    commits: bytes | None,
    candidates: Sequence[tuple[bytes, Prepared]],
) -> Decided:
    """The one prepared record that matches the surviving state, by offsets and state ids.

    Without state ids (no state) every record with these offsets is equally valid, and the newest run's counts. Where
    another driver may be alive, it may have overwritten the offsets after the epoch was prepared: then they say
    nothing, and recovery restores those of the decision.
    """
    entry_of_commits = parse_commits(commits)
    says_something = query.local_lease and parse_offsets(offsets) is not None
    whole_offsets = offsets if says_something else None
    if commits is None or entry_of_commits is None:
        raise _hole(query, epoch, f"{COMMITS}/{epoch} is missing or torn, and a later entry is there")
    matching = [(data, prepared) for data, prepared in candidates if matches(prepared, whole_offsets, entry_of_commits)]
    if not matching:
        raise _hole(query, epoch, f"{len(candidates)} prepared records, none with these offsets and state ids")
    several = len({prepared.offsets for _, prepared in matching}) > 1
    if (several and query.local_lease) or (entry_of_commits.state_ids is not None and len(matching) > 1):
        runs = ", ".join(str(prepared.run) for _, prepared in matching)
        raise TidegateError(
            Code.LEDGER_AMBIGUOUS,
            expected="one prepared record with the offsets and state ids of Spark's log",
            found=f"those of runs {runs}",
            where=f"{query}, epoch {epoch}",
        )
    data, prepared = max(matching, key=lambda pair: pair[1].run)
    return Decided(
        epoch=epoch,
        run=prepared.run,
        prepared_digest=digest_of(data),
        offsets=prepared.offsets,
        commits=commits,
        state_rows=prepared.state_rows,
        operator_uids=prepared.operator_uids,
    )


def matches(prepared: Prepared, offsets: bytes | None, commits: CommitsEntry) -> bool:
    return prepared.state_ids == commits.state_ids and offsets in (None, prepared.offsets)


def _hole(query: Query, epoch: int, found: str) -> TidegateError:
    return TidegateError(
        Code.LEDGER_HOLE,
        expected="a prepared record for every epoch that Spark's commit log holds",
        found=found,
        where=f"{query}, epoch {epoch}",
        next_step="put the whole folder of the job back from one copy (parts of two do not fit together), or go"
        " back to a"
        " savepoint: tidegate run -s PATH APP",
    )


def _away(query: Query, epoch: int) -> TidegateError:
    """The newest entry existed when the epoch began. An older driver that is still alive may be checking if it is
    torn.
    """
    return TidegateError(
        Code.EPOCH_TORN,
        expected=f"{COMMITS}/{epoch}, which was there a moment ago",
        found="no whole entry, and none after it",
        where=f"{query}, epoch {epoch}",
        next_step="start the job again (`tidegate run` does by itself): recovery looks at the log anew",
    )


def _chosen(query: Query, run: Run, decided: Decided) -> Steps[Prepared]:
    name = prepared_name(decided.epoch, decided.run)
    data = yield from recall(name)
    if data is None or digest_of(data) != decided.prepared_digest:
        yield from _stop_if_finished_by_others(query, run, decided.epoch)
        found = "no such file" if data is None else "another record"
        raise _hole(query, decided.epoch, f"{name} was decided on, but the found record is {found}")
    return decode(Prepared, data, name)


# --- the commit --------------------------------------------------------------------------------------------


def _commit(query: Query, run: Run, decided: Decided, committables: tuple[Committable, ...]) -> Steps[None]:
    sink, epoch = committables[0].attempt.sink.sink, decided.epoch
    tries = 0
    while True:
        answers = yield from commit_sink(sink, committables)
        states = [TransactionState.COMMITTED]
        for committable, answer in zip(committables, answers, strict=True):
            states.append((yield from _settle(query, run, committable, answer)))
        if set(states) == {TransactionState.COMMITTED}:
            if tries > 0 or decided.run != run.run:
                yield from tell_shown_again(query, committables, answers)
            return
        yield Hesitate(sink, epoch, tries, "; ".join(answer.detail for answer in answers if answer.detail))
        tries += 1
        yield from stop_if_superseded(query, run)


def _settle(query: Query, run: Run, committable: Committable, answer: Answer) -> Steps[TransactionState]:
    """The next state of one transaction after a sink's answer; an undecidable one stops the job."""
    detail = answer.detail
    state = TRANSACTION.next(TransactionState.COMMITTING, ANSWERED[answer.outcome])
    if state is TransactionState.SUSPECT:
        state = yield from _fence_and_look(committable)
    if state is TransactionState.COMMITTED or state is TransactionState.COMMITTING:
        return state
    # After the fence and the check: another run may have finished this epoch and removed the evidence.
    yield from _stop_if_finished_by_others(query, run, committable.attempt.epoch)
    if state is TransactionState.LOST and committable.journal is not None:
        answer = yield from redo_transaction(committable.attempt.sink.sink, committable)
        state, detail = TRANSACTION.next(state, ANSWERED[answer.outcome]), answer.detail
        yield from _tell_redone(committable, state)
    if state is TransactionState.UNDECIDABLE or state is TransactionState.LOST:
        raise (yield from _verdict(committable, state, detail))
    return state


def _stop_if_finished_by_others(query: Query, run: Run, epoch: int) -> Steps[None]:
    """A superseded run raises no verdict: its successor may have removed the missing data."""
    yield from stop_if_superseded(query, run)
    if (yield from read_finished()) >= epoch:
        raise superseded(query, run, f"epoch {epoch} was finished by another run")


def _fence_and_look(committable: Committable) -> Steps[TransactionState]:
    """Fence, then look for evidence: without the fence, missing evidence may still appear."""
    sink = committable.attempt.sink.sink
    yield FenceTransaction(sink, committable)
    fenced = TRANSACTION.next(TransactionState.SUSPECT, TransactionEvent.FENCE_RAISED)
    evidence = yield from look_for_evidence(sink, committable)
    return TRANSACTION.next(fenced, SHOWN[evidence])


def _tell_redone(committable: Committable, state: TransactionState) -> Steps[None]:
    if state is TransactionState.COMMITTED:
        attempt = committable.attempt
        yield Tell(TransactionRedone(epoch=attempt.epoch, sink=attempt.sink.sink, task=attempt.task))


def tell_shown_again(query: Query, committables: Sequence[Committable], answers: Sequence[Answer]) -> Steps[None]:
    """Count what this try has shown, if an earlier one, of this run or an older one, may have shown it as well."""
    shown = [each for each, answer in zip(committables, answers, strict=True) if answer.outcome is Outcome.COMMITTED]
    if shown and shown[0].attempt.sink.sink in query.repeating:
        attempt = shown[0].attempt
        yield Tell(RowsShownAgain(attempt.epoch, attempt.sink.sink, sum(each.rows for each in shown)))


def _verdict(committable: Committable, state: TransactionState, detail: str) -> Steps[TidegateError]:
    attempt = committable.attempt
    decided = yield from read_decided(attempt.epoch)
    offsets = parse_offsets(None if decided is None else decided.offsets)
    positions = () if offsets is None else offsets.positions
    lost = state is TransactionState.LOST
    evidence = yield from look_for_evidence(attempt.sink.sink, committable)
    return TidegateError(
        Code.TRANSACTION_LOST if lost else _UNDECIDABLE_BECAUSE.get(evidence, Code.TRANSACTION_UNKNOWN),
        expected=f"task {attempt.task} of epoch {attempt.epoch} ({committable.rows} rows) to be committed",
        found=detail or ("the sink has lost it and its rows are gone" if lost else "the sink cannot tell"),
        where=f"sink {attempt.sink.sink} of query {attempt.sink.query}, source positions {list(positions)}",
        next_step="look for these rows in the sink; put its stage or journal files back from a copy, and start again",
    )


_UNDECIDABLE_BECAUSE = {Evidence.OTHER: Code.SECOND_TIMELINE}


# --- afterwards --------------------------------------------------------------------------------------------


def catch_up(query: Query, run: Run) -> Steps[None]:
    """Advance *finished_through* over epochs whose *done* was written just before their run died."""
    standing = yield from read_finished_through()
    for epoch in (yield from numbers(DONE)):
        decided = yield from read_decided(epoch)
        if decided is not None and (standing is None or epoch > standing.epoch):
            standing = yield from _advance(epoch, (yield from _chosen(query, run, decided)), standing)


def _advance(epoch: int, prepared: Prepared, standing: FinishedThrough | None) -> Steps[FinishedThrough]:
    """Write *finished_through*, which this run never puts back, with the newest evidence of each sink that wrote
    something. `standing`: its content.
    """
    if standing is not None and standing.epoch >= epoch:
        return standing
    progress = {} if standing is None else dict(standing.sinks)
    for sink in sorted({committable.attempt.sink.sink for committable in prepared.committables}):
        progress[sink] = SinkProgress(epoch=epoch, digest=epoch_digest(of_sink(prepared.committables, sink)))
    reached = FinishedThrough(epoch=epoch, sinks=progress)
    yield Replace(FINISHED_THROUGH, encode(reached), "finished")
    return reached


def clean_up(query: Query) -> Steps[None]:
    """Remove the journals of finished epochs. Records stay as long as Spark keeps its own log, at least three."""
    finished = yield from read_finished()
    yield CleanThrough(finished)
    logged = yield from numbers(OFFSETS)
    oldest_kept = min([finished - KEPT_AT_LEAST + 1, *logged])
    for folder in (DECIDED, DONE):
        for number in (yield from numbers(folder)):
            if number < oldest_kept:
                yield Delete(entry(folder, number), "gc.record")
    for number, run in (yield from prepared_entries()):
        if number < oldest_kept:
            yield Delete(prepared_name(number, run), "gc.record")
    runs_kept = RUNS_KEPT if query.local_lease else RUNS_KEPT_WITHOUT_PROOF
    for number in (yield from numbers(RUNS))[:-runs_kept]:
        yield Delete(entry(RUNS, number), "gc.record")
