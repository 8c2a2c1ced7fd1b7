"""Parts of the contract suite: names and rows, processes that die, a journal."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec
import pyarrow as pa

from tidegate.core.json_formats import parsed
from tidegate.core.records import Answer, Attempt, Committable, JournalRef, Outcome, SinkIdentity
from tidegate.sinks.arrow import batch_of
from tidegate.sinks.base import SinkPlan, Transaction, TwoPhaseSink

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext
    from multiprocessing.synchronize import Barrier

Row = dict[str, Any]

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("word", pa.string())])
"""The rows of every test. `id` is unique in a test, so a sink with a key can use it."""

PATIENCE_SECONDS = 60
"""How long the suite waits for one of its processes."""

DIE_NOWHERE = -1

TRIES, PAUSE_SECONDS = 20, 0.05
"""Number of tries of a commit that answers RETRY, and the pause between them in seconds."""

OUTWARD = frozenset(
    [
        *("commit", "execute", "executemany", "executescript", "send", "sendall", "sendto", "write"),
        *(
            "fdatasync",
            "fsync",
            "link",
            "mkdir",
            "remove",
            "rename",
            "replace",
            "rmdir",
            "symlink",
            "truncate",
            "unlink",
        ),
    ]
)
"""External calls of a commit. The suite kills the process before each of them."""

AROUND = frozenset(
    {
        ("psycopg.connection", "wait"),
        ("psycopg.connection", "close"),
        ("deltalake.table", "create_write_transaction"),
    }
)
"""Functions around external calls of compiled clients, which Python does not report: one for each request."""


class ContractBroken(AssertionError):
    """A sink violates the contract."""


IDENTITY = SinkIdentity(job="orders", job_id="5f0c", generation=1, query="by-day", sink="numbers")
"""The owner of the suite's transactions."""


def attempt_of(*, generation: int = 1, run: int = 1, epoch: int = 0, task: int = 0, task_attempt: int = 0) -> Attempt:
    """The name of a transaction of `IDENTITY`."""
    return Attempt(
        sink=msgspec.structs.replace(IDENTITY, generation=generation),
        run=run,
        run_token=f"token{run}",
        epoch=epoch,
        task=task,
        task_attempt=task_attempt,
    )


def odd_rows() -> pa.RecordBatch:
    """Rows that some targets cannot store: a null in each column, and text that is not valid UTF-8."""
    words = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    odd = pa.concat_arrays([pa.array(["good", None, "no id"], pa.string()), words])
    return batch_of([pa.array([1, 2, None, 4], pa.int64()), odd], SCHEMA.names)


def rows_from(first: int, count: int) -> pa.RecordBatch:
    """`count` rows of `SCHEMA`, with ids from `first` * 1000 upwards."""
    ids = range(first * 1000, first * 1000 + count)
    return pa.RecordBatch.from_pylist([{"id": each, "word": f"word {each}"} for each in ids], schema=SCHEMA)


def begun(sink: TwoPhaseSink, attempt: Attempt) -> Transaction:
    """Begin a transaction as in a task: with a pickled copy of the sink. Its run has begun before, on the driver."""
    sink.begin_run(attempt.sink, attempt.run, attempt.run_token)
    return pickle.loads(pickle.dumps(sink)).begin(attempt)


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def demand(holds: bool, what: str) -> None:
    if not holds:
        raise ContractBroken(f"the contract demands: {what}")


# --- other processes -------------------------------------------------------------------------------------------


def processes() -> ForkServerContext:
    """Processes that share nothing with this one and start fast: their server has imported the modules of this
    process."""
    processes = multiprocessing.get_context("forkserver")
    loaded = [name for name in sys.modules if name.startswith("tidegate.") and "spark" not in name]
    processes.set_forkserver_preload(loaded)
    return processes


def prepare_and_wait(pipe: Connection, sink: TwoPhaseSink, attempt: Attempt, batches: Sequence[pa.RecordBatch]) -> None:
    transaction = begun(sink, attempt)
    for batch in batches:
        transaction.write(batch)
    pipe.send_bytes(msgspec.json.encode(transaction.pre_commit()))
    signal.pause()  # killed: no cleanup runs


def commit_together(
    pipe: Connection, together: Barrier, sink: TwoPhaseSink, plan: SinkPlan, committables: Sequence[Committable]
) -> None:
    sink.open(plan)
    together.wait(PATIENCE_SECONDS)
    pipe.send_bytes(msgspec.json.encode(committed(sink, committables)))


def commit_and_die(pipe: Connection, sink: TwoPhaseSink, plan: SinkPlan, forks_with_client: bool) -> None:
    """For every (place, committables) received: a new process commits, and dies as in `_act_and_die`."""

    def read(order: bytes) -> tuple[int, Callable[[], object]]:
        place, committables = parsed(order, tuple[int, list[Committable]])
        return place, lambda: committed(sink, committables)

    _act_and_die(pipe, sink, plan, forks_with_client, read)


def write_and_die(
    pipe: Connection, sink: TwoPhaseSink, plan: SinkPlan, forks_with_client: bool, batches: Sequence[pa.RecordBatch]
) -> None:
    """For every (place, attempt) received: a new process prepares `batches`, and dies as in `_act_and_die`."""

    def read(order: bytes) -> tuple[int, Callable[[], object]]:
        place, attempt = parsed(order, tuple[int, Attempt])
        return place, lambda: _prepare(sink, attempt, batches)

    _act_and_die(pipe, sink, plan, forks_with_client, read)


def _prepare(sink: TwoPhaseSink, attempt: Attempt, batches: Sequence[pa.RecordBatch]) -> None:
    transaction = sink.begin(attempt)
    for batch in batches:
        transaction.write(batch)
    transaction.pre_commit()


def _act_and_die(
    pipe: Connection,
    sink: TwoPhaseSink,
    plan: SinkPlan,
    forks_with_client: bool,
    read: Callable[[bytes], tuple[int, Callable[[], object]]],
) -> None:
    """For every order received: a new process acts, and dies before its external call number `place`. Sends the number
    of calls; 0 if the process was killed, -1 if it raised. `forks_with_client`: open the sink once, before the forks.
    `read`: the place and the action of an order."""
    if forks_with_client:
        sink.open(plan)
    while True:
        try:
            order = pipe.recv_bytes()
        except EOFError:
            return
        place, act = read(order)
        child = os.fork()
        if child == 0:
            if not forks_with_client:
                sink.open(plan)
            _act_and_exit(pipe, act, place)
        _, status = os.waitpid(child, 0)
        if status != 0:
            pipe.send_bytes(b"0" if os.WIFSIGNALED(status) else b"-1")


def _act_and_exit(pipe: Connection, act: Callable[[], object], place: int) -> NoReturn:
    calls = 0

    def look(frame: FrameType, event: str, function: object) -> None:
        nonlocal calls
        if (event == "c_call" and _goes_outward(function)) or (event == "call" and _is_around(frame)):
            if calls == place:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1

    try:
        threading.setprofile(look)  # a client may write from a thread of its own, which this commit starts
        sys.setprofile(look)
        act()
        sys.setprofile(None)
        pipe.send_bytes(msgspec.json.encode(calls))
    finally:
        os._exit(sys.exc_info()[0] is not None)


def _goes_outward(function: object) -> bool:
    # `replace` of a str goes nowhere.
    return getattr(function, "__name__", "") in OUTWARD and not isinstance(getattr(function, "__self__", None), str)


def _is_around(frame: FrameType) -> bool:
    return (frame.f_globals.get("__name__"), frame.f_code.co_name) in AROUND


def committed(sink: TwoPhaseSink, committables: Sequence[Committable]) -> Sequence[Answer]:
    """The answers of a commit. RETRY is tried again."""
    answers = sink.commit(committables)
    for _ in range(TRIES):
        if all(answer.outcome is not Outcome.RETRY for answer in answers):
            break
        time.sleep(PAUSE_SECONDS)
        answers = sink.commit(committables)
    return answers


# --- the journal that a task's writer keeps --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContractJournal:
    folder: Path

    def keep(self, attempt: Attempt, batches: Sequence[pa.RecordBatch]) -> JournalRef:
        sink = attempt.sink
        whose = f"{sink.job}-{sink.job_id}-{sink.query}-{sink.sink}"
        name = f"{whose}-g{sink.generation}-e{attempt.epoch}-{attempt.name}.arrow"
        self.folder.mkdir(exist_ok=True)
        with pa.OSFile(os.fspath(self.folder / name), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
            cast("Any", stream).write_table(pa.Table.from_batches(batches))
        data = (self.folder / name).read_bytes()
        return JournalRef(
            name=name,
            rows=sum(batch.num_rows for batch in batches),
            size_bytes=len(data),
            checksum=hashlib.sha256(data).hexdigest(),
        )

    def read(self, reference: JournalRef) -> list[pa.RecordBatch]:
        with pa.OSFile(os.fspath(self.folder / reference.name), "rb") as file:
            return list(pa.ipc.open_stream(file))
