"""The tables of `docs/recovery.md`: the protocol's own functions, asked about every case."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tidegate.core.errors import TidegateError
from tidegate.core.ledger import COMMITS, OFFSETS, Query
from tidegate.core.records import Decided, Evidence, FinishedThrough, Outcome, Position, SinkProgress
from tidegate.core.recover import judge_position
from tidegate.core.recovery_plan import AddDueEpoch, FoundLog, PutAside, RestoreEntry, plan_recovery
from tidegate.core.states import ANSWERED, SHOWN, TRANSACTION, TransactionEvent, TransactionState

_QUERY = Query(job="job", job_id="mine", generation=2, uid="query", sources=("source",), sinks=("sink",))


def log_table() -> str:
    """What recovery does with Spark's log."""
    rows = [(case, _steps(found)) for case, found in _log_cases()]
    return _table(("Spark's log, where epoch 4 is the newest decided", "recovery"), rows)


def sink_table() -> str:
    """What recovery says to a sink's evidence."""
    rows = [(position, finished, _verdict(*case)) for position, finished, case in _sink_cases()]
    return _table(("newest evidence in the sink", "the ledger's newest finished epoch of this sink", "verdict"), rows)


def answer_table() -> str:
    """What follows from each answer of a sink to a commit."""
    rows: list[tuple[str, ...]] = []
    for outcome in Outcome:
        state = TRANSACTION.next(TransactionState.COMMITTING, ANSWERED[outcome])
        if state is not TransactionState.SUSPECT:
            rows.append((outcome.value, "not asked", _THEN[state]))
            continue
        fenced = TRANSACTION.next(state, TransactionEvent.FENCE_RAISED)
        rows.extend(
            (outcome.value, evidence.value, _THEN[TRANSACTION.next(fenced, SHOWN[evidence])]) for evidence in Evidence
        )
    return _table(("the sink answers", "evidence, after fencing", "then"), rows)


_THEN = {
    TransactionState.COMMITTED: "committed: continue",
    TransactionState.COMMITTING: "wait, ask again",
    TransactionState.LOST: (
        "write it again from the journal, under its own name; without a journal stop: `TG-TRANSACTION-LOST`"
    ),
    TransactionState.UNDECIDABLE: "stop, and name the rows: `TG-TRANSACTION-UNKNOWN`, or `TG-SECOND-TIMELINE`",
}


# --- Spark's log -------------------------------------------------------------------------------------------


def _offsets(end: int, watermark: int = 0) -> bytes:
    return f'v1\n{{"batchWatermarkMs":{watermark},"conf":{{}}}}\n{end}'.encode()


def _commits(watermark: int = 0) -> bytes:
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()


def _log_cases() -> Iterator[tuple[str, FoundLog]]:
    states = {"is missing": None, "is empty": b"", "was cut": b"v1\n", "differs": _offsets(41)}
    yield "both entries are as decided", _found({}, {})
    for folder, (state, data) in product((OFFSETS, COMMITS), states.items()):
        changed = {4: data}
        yield f"`{_short(folder)}/4` {state}", _found(*((changed, {}) if folder == OFFSETS else ({}, changed)))
    yield "`offsets/5` follows on `offsets/4`", _found({5: _offsets(50)}, {})
    yield "`offsets/5` is torn", _found({5: b"v1"}, {})
    yield "`offsets/5` goes back", _found({5: _offsets(39)}, {})
    yield "`offsets/5` and `offsets/6` are there", _found({5: _offsets(50), 6: _offsets(60)}, {})
    yield "`commits/5` is there, torn", _found({5: _offsets(50)}, {5: b"v1"})
    yield "`commits/4` has a later watermark, `offsets/5` is missing", _found({}, {}, watermark=7000)
    yield "`commits/4` has a later watermark, `offsets/5` is there", _found({5: _offsets(50, 7000)}, {}, watermark=7000)


def _found(offsets: dict[int, bytes | None], commits: dict[int, bytes | None], watermark: int = 0) -> FoundLog:
    decided = Decided(epoch=4, run=1, prepared_digest="d", offsets=_offsets(40), commits=_commits(watermark))
    log = {OFFSETS: {4: decided.offsets, **offsets}, COMMITS: {4: decided.commits, **commits}}
    there = {folder: {n: data for n, data in entries.items() if data is not None} for folder, entries in log.items()}
    return FoundLog(newest=4, decided={4: decided}, log=there)


def _steps(found: FoundLog) -> str:
    words: list[str] = []
    for step in plan_recovery(found):
        match step:
            case RestoreEntry(name):
                words.append(f"write `{_short(name)}` as decided")
            case PutAside(name):
                words.append(f"rename `{_short(name)}` aside")
            case AddDueEpoch(epoch):
                words.append(f"write `offsets/{epoch}`: the no-data epoch is due")
    return ", then ".join(words) or "nothing"


def _short(name: str) -> str:
    return name.removeprefix("spark/")


# --- evidence in the sinks ---------------------------------------------------------------------------------


def _sink_cases() -> Iterator[tuple[str, str, tuple[Position | None, FinishedThrough | None]]]:
    positions = {
        "none": None,
        "epoch 3": _position(3),
        "epoch 4": _position(4),
        "epoch 4, with another digest": _position(4, digest="other"),
        "epoch 5, decided but not finished": _position(5),
        "epoch 6": _position(6),
        "epoch 9 of the generation before": _position(9, generation=1),
        "epoch 0 of a later generation": _position(0, generation=3),
        "epoch 4 of another job id": _position(4, job_id="other"),
    }
    for (name, position), finished in product(positions.items(), (4, None)):
        progress = {} if finished is None else {"sink": SinkProgress(epoch=finished, digest="right")}
        told = "none" if finished is None else f"epoch {finished}"
        yield name, told, (position, FinishedThrough(epoch=4, sinks=progress))
    restored = {"sink": SinkProgress(epoch=9, digest="right", generation=1)}
    positions = {
        "none": None,
        "epoch 8 of the generation before": _position(8, generation=1),
        "epoch 9 of the generation before": _position(9, generation=1),
        "epoch 9 of the generation before, with another digest": _position(9, generation=1, digest="other"),
        "epoch 5, decided but not finished": _position(5),
    }
    for name, position in positions.items():
        told = "none; its savepoint counts epoch 9 of the generation before"
        yield name, told, (position, FinishedThrough(epoch=4, sinks=restored))


def _position(epoch: int, *, generation: int = 2, digest: str = "right", job_id: str = "mine") -> Position:
    return Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest)


def _verdict(position: Position | None, finished: FinishedThrough | None) -> str:
    error: TidegateError | None = judge_position(_QUERY, "sink", position, finished, newest=5)
    return "continue" if error is None else f"refuse: `{error.code}`"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
