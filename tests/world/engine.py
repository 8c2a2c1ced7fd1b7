"""Spark as the protocol meets it: two logs, state files by id, nothing synced, and its quirks at a start."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from tests.world.configurations import TASKS, TIMEOUT_SECONDS, Configuration, Work
from tests.world.disk import COMMITS, OFFSETS, STATE, Disk
from tests.world.rows import EMPTY, State, compute, event_time
from tidegate.core.effects import Compute, Computed, Effect, OwnPlan, Steps, SyncCheckpoint, Tell
from tidegate.core.records import Attempt, Committable, Prepared, Run
from tidegate.core.spark_log import canonical_state_ids

if TYPE_CHECKING:
    from tests.world.sinks import SimSink


class Reason(Enum):
    """Why a Spark query ends with an error."""

    CONCURRENT = "another driver has written this log entry"
    TASK_FAILED = "a task failed"
    LOG_TORN = "the newest log entry is torn"
    LOG_HOLE = "a log entry is missing"
    STATE_MISSING = "a state file is missing or torn"
    STRUCK = "a write failed"
    OVERDUE = "an epoch was cut off"


class SparkStopped(Exception):
    """A Spark query has ended with an error."""

    def __init__(self, reason: Reason, detail: str) -> None:
        self.reason = reason
        super().__init__(f"{reason.value}: {detail}")


class TaskFailed(Exception):
    """A task attempt is lost; Spark runs another one."""


@dataclass(frozen=True, slots=True)
class Do:
    """A step that is not the protocol's: of Spark's JVM, or of a task."""

    point: str
    act: Callable[[], Any]


SparkSteps: TypeAlias = Generator["Effect | Do", Any, None]
SparkCompute: TypeAlias = Generator[Do, Any, Computed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch as the offset log has it."""

    epoch: int
    start: int
    end: int
    watermark: int


class Engine:
    """One start of the query in one JVM (MicroBatchExecution of pyspark 4.2 and 4.3)."""

    def __init__(
        self,
        configuration: Configuration,
        disk: Disk,
        sinks: list[SimSink],
        run: Run,
        execution: Callable[[], int],
        run_epoch: Callable[[int], Steps[Prepared]],
        times: Mapping[int, float] | None = None,
    ) -> None:
        """`times`: the seconds of the epochs that have more than the others."""
        self._configuration = configuration
        self._disk = disk
        self._sinks = sinks
        self.run_record = run
        self._new_execution = execution
        self._run_epoch = run_epoch
        self._times = times or {}
        self.overdue: tuple[int, float] | None = None
        """The epoch that was cut off, and the seconds that it had."""
        self.odd_start: str | None = None
        self.odd_base: str | None = None
        self._end = 0
        self._epoch = 0
        self._ids: list[str] | None = None
        self._last: Batch | None = None  # what Spark calls lastExecution: forgotten by a restart
        self._next_watermark = 0

    def run(self) -> SparkSteps:
        """Run epochs until no input is left and no no-data epoch is due."""
        batch: Batch | None = yield Do("spark.start", self._read_logs)
        while True:
            if batch is None:
                batch = yield Do("spark.offsets", self._next_batch)
                if batch is None:
                    return
                yield from self._put_late()
            ids: list[str] = []
            yield from self._batch(batch, ids)
            yield Do("spark.commits", lambda batch=batch, ids=ids: self._commit(batch, ids))
            yield from self._put_late()
            batch = None

    # --- the logs ------------------------------------------------------------------------------------------

    def _read_logs(self) -> Batch | None:
        """Where to go on: the newest offsets entry by number, compared with the newest commits entry by number."""
        offsets = self._numbers(OFFSETS)
        if not offsets:
            return None
        latest = max(offsets)
        end, watermark = read_offsets(self._disk, latest)
        start = 0
        if latest > 0:
            if latest - 1 not in offsets:
                raise SparkStopped(Reason.LOG_HOLE, f"batch {latest - 1} doesn't exist")
            start, _ = read_offsets(self._disk, latest - 1)
        committed = max(self._numbers(COMMITS), default=-1)
        if committed >= 0:
            next_watermark, self._ids = self._commits(committed)
            if committed == latest:
                self._end, self._epoch, self._next_watermark = end, latest + 1, next_watermark
                return None
        # `committed < latest - 1` is only a warning: the epochs between are skipped.
        return Batch(epoch=latest, start=start, end=end, watermark=watermark)

    def _latest_end(self) -> int:
        """Where the source says that the next epoch ends."""
        chunks = self._configuration.chunks
        return min(self._configuration.records, self._end + chunks[(self.run_record.run - 1) % len(chunks)])

    def _next_batch(self) -> Batch | None:
        configuration = self._configuration
        end = self._latest_end()
        due = self._last is not None and self._next_watermark > self._last.watermark
        if end == self._end and not due:
            return None
        batch = Batch(epoch=self._epoch, start=self._end, end=end, watermark=self._next_watermark)
        self._create(f"{OFFSETS}/{batch.epoch}", offsets_entry(configuration, batch.end, batch.watermark))
        for folder in (OFFSETS, COMMITS):
            for number in self._numbers(folder):
                if number < batch.epoch - configuration.retain:
                    self._disk.delete(f"{folder}/{number}")
        return batch

    def _commit(self, batch: Batch, ids: list[str]) -> None:
        watermark = event_time(batch.end - 1) if self._configuration.work is Work.WINDOWED and batch.end else 0
        self._next_watermark = max(watermark, batch.watermark)
        self._create(f"{COMMITS}/{batch.epoch}", commits_entry(self._next_watermark, ids))
        self._end, self._epoch, self._last = batch.end, batch.epoch + 1, batch
        self._ids = ids

    def _create(self, name: str, data: bytes) -> None:
        if name.rpartition("/")[2] in self._disk.names(name.rpartition("/")[0]):
            raise SparkStopped(Reason.CONCURRENT, name)
        self._write_entry(name, data)

    def _write_entry(self, name: str, data: bytes) -> None:
        self._disk.write(name, data)

    def _put_late(self) -> Generator[Do, Any, None]:
        """Nothing: an entry is looked for and written in one step."""
        yield from ()

    def _numbers(self, folder: str) -> list[int]:
        return [int(name) for name in self._disk.names(folder) if name.isdigit()]

    def _commits(self, number: int) -> tuple[int, list[str] | None]:
        """A file cut after its version line is taken for an entry without watermark and ids."""
        data = self._disk.read_bytes(f"{COMMITS}/{number}") or b""
        if not data:
            raise SparkStopped(Reason.LOG_TORN, f"{COMMITS}/{number}")
        try:
            return read_commits(data)
        except ValueError:
            raise SparkStopped(Reason.LOG_TORN, f"{COMMITS}/{number}") from None

    # --- one epoch -----------------------------------------------------------------------------------------

    def _batch(self, batch: Batch, ids: list[str]) -> SparkSteps:
        """The protocol's `run_epoch`, with the tasks in the place of its `Compute`."""
        protocol = self._run_epoch(batch.epoch)
        effect: Effect = next(protocol)
        while True:
            try:
                if self._is_cut_off_at(batch.epoch, effect):
                    raise SparkStopped(Reason.OVERDUE, f"epoch {batch.epoch}")
                if isinstance(effect, Compute):
                    result: Any = yield from self._compute(batch, ids, effect)
                else:
                    result = yield effect
            except Exception as error:
                protocol.throw(error)
                raise
            try:
                effect = protocol.send(result)
            except StopIteration:
                return

    def _is_cut_off_at(self, epoch: int, effect: Effect) -> bool:
        """Whether the epoch takes too long. It is noticed when its tasks have ended; in every second run only when its
        record is durable, which is as late as it can be."""
        slow, needed = self._configuration.slow or (epoch, 0.0)
        time = self._times.get(epoch, TIMEOUT_SECONDS)
        last = Tell if self.run_record.run % 2 == 0 else SyncCheckpoint
        if epoch != slow or time >= needed or not isinstance(effect, last):
            return False
        self.overdue = epoch, time
        return True

    def _compute(self, batch: Batch, ids: list[str], asked: Compute) -> SparkCompute:
        """The tasks, one after another; `ids` is filled with the state ids of those that count."""
        execution = self._new_execution()
        committables: list[Committable] = []
        for task in range(TASKS):
            attempt = 0
            while True:
                try:
                    written, state_id = yield from self._task(batch, execution, task, attempt)
                except TaskFailed:
                    attempt += 1
                else:
                    break
            committables += written
            ids.append(state_id)
        return self._computed(batch, committables, ids)

    def _computed(self, batch: Batch, committables: list[Committable], ids: list[str]) -> Computed:
        stateless = self._configuration.work is Work.STATELESS
        starts = tuple(
            self.odd_start or (None if form == "none" else position(form, batch.start))
            for form in self._configuration.positions
        )
        return Computed(
            committables=tuple(committables),
            start_positions=starts if batch.epoch else None,
            state_ids=None if stateless else canonical_state_ids(_ids_by_operator(ids)),
            own=None if self._configuration.local_lease else self._own_plan(batch, stateless=stateless),
        )

    def _own_plan(self, batch: Batch, *, stateless: bool) -> OwnPlan:
        base = None if stateless or self._ids is None else canonical_state_ids(_ids_by_operator(self._ids))
        base = self.odd_base or base
        ends = tuple(None if form == "none" else position(form, batch.end) for form in self._configuration.positions)
        return OwnPlan(ends, batch.watermark, base)

    def _task(
        self, batch: Batch, execution: int, task: int, attempt: int
    ) -> Generator[Do, Any, tuple[list[Committable], str]]:
        rows, state = compute(
            self._configuration,
            epoch=batch.epoch,
            execution=execution,
            attempt=attempt,
            task=task,
            records=range(batch.start, batch.end),
            watermark=batch.watermark,
            state=self._load(batch.epoch, task),
        )
        written: list[Committable] = []
        if rows:
            names = [self._attempt(sink, batch.epoch, task, attempt) for sink in self._sinks]
            opened = yield Do("task.open", lambda: [s.begin(n) for s, n in zip(self._sinks, names, strict=True)])
            for sink, name, handle in zip(self._sinks, names, opened, strict=True):
                act = lambda sink=sink, name=name, handle=handle: sink.prepare(name, rows, handle)  # noqa: E731
                written.append((yield Do("task.prepare", act)))
        if self._configuration.work is Work.STATELESS:
            return written, NO_STATE
        state_id = f"{execution}-{attempt}"
        name = f"{STATE}/{task}/{batch.epoch + 1}_{state_id}"
        yield Do("task.state", lambda: self._disk.write(name, state))
        return written, state_id

    def _attempt(self, sink: SimSink, epoch: int, task: int, attempt: int) -> Attempt:
        return Attempt(
            sink=sink.identity,
            run=self.run_record.run,
            run_token=self.run_record.token,
            epoch=epoch,
            task=task,
            task_attempt=attempt,
        )

    def _load(self, epoch: int, task: int) -> State:
        if epoch == 0 or self._configuration.work is Work.STATELESS:
            return EMPTY
        return load_state(self._disk, epoch, task, self._ids)


def read_offsets(disk: Disk, number: int) -> tuple[int, int]:
    """End and watermark of an offsets entry; Spark stops at a torn one."""
    try:
        return parsed_offsets(disk.read_bytes(f"{OFFSETS}/{number}") or b"")
    except (IndexError, ValueError):
        raise SparkStopped(Reason.LOG_TORN, f"{OFFSETS}/{number}") from None


def parsed_offsets(data: bytes) -> tuple[int, int]:
    """End and watermark in the bytes of an offsets entry; IndexError, ValueError for torn ones."""
    lines = data.decode().split("\n")
    return position_end(lines[2]), json.loads(lines[1])["batchWatermarkMs"]


def load_state(disk: Disk, version: int, task: int, ids: list[str] | None) -> State:
    """The state of one task by its id; Spark refuses to start without it."""
    name = f"{STATE}/{task}/{version}_{None if ids is None else ids[task]}"
    state = disk.read(name)
    if not isinstance(state, State):
        raise SparkStopped(Reason.STATE_MISSING, name)
    return state


def surviving(disk: Disk) -> tuple[int, ...]:
    """The accumulator of each task in the state that Spark would go on from, by the ids in the newest commits entry."""
    newest = max((int(name) for name in disk.names(COMMITS) if name.isdigit()), default=None)
    if newest is None:
        return ()
    _, ids = read_commits(disk.read_bytes(f"{COMMITS}/{newest}") or b"")
    return tuple(load_state(disk, newest + 1, task, ids).accumulator for task in range(TASKS))


# --- formats -----------------------------------------------------------------------------------------------


def offsets_entry(configuration: Configuration, end: int, watermark: int) -> bytes:
    metadata = f'{{"batchWatermarkMs":{watermark},"batchTimestampMs":{end},"conf":{{"shuffle.partitions":"2"}}}}'
    return "\n".join(["v1", metadata, *(position(form, end) for form in configuration.positions)]).encode()


def commits_entry(watermark: int, ids: list[str]) -> bytes:
    if NO_STATE in ids:
        return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()
    metadata = {"nextBatchWatermarkMs": watermark, "stateUniqueIds": _ids_by_operator(ids)}
    return f"v2\n{json.dumps(metadata)}".encode()


NO_STATE: Final = ""
"""The state id of a task of a stateless query."""


def read_commits(data: bytes) -> tuple[int, list[str] | None]:
    lines = data.decode().split("\n")
    if len(lines) < 2 or not lines[1]:
        return 0, None
    metadata = json.loads(lines[1])
    ids = metadata.get("stateUniqueIds")
    return metadata["nextBatchWatermarkMs"], None if ids is None else [each[0] for each in ids["0"]]


_FORMS: Final[dict[str, Callable[[int], str]]] = {
    "number": str,
    "files": lambda end: f'{{"logOffset":{end}}}',
    "kafka": lambda end: f'{{"topic":{{"0":{end},"1":{end}}}}}',
    "list": lambda end: f"[{end}]",
    "flag": lambda end: "true",
    "named": lambda end: f'{{"at":{{"place":{end}}}}}',
    "none": lambda end: "-",
    "pair": lambda end: f'{{"a":{end},"b":{end}}}',
}


def position(form: str, end: int) -> str:
    """A source's position in one of the forms that Spark's sources write."""
    return _FORMS[form](end)


def position_end(line: str) -> int:
    """The number in a position of the forms `number`, `files` and `kafka`."""
    value: Any = json.loads(line)
    while isinstance(value, dict):
        value = next(iter(cast("dict[str, Any]", value).values()))
    return int(value)


def _ids_by_operator(ids: list[str]) -> dict[str, list[list[str]]]:
    return {"0": [[each] for each in ids]}
