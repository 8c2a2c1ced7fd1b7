"""Sinks without transactions: rows from the journal, handed over once the epoch is decided."""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Callable, Iterable, Sequence

import msgspec
import pyarrow as pa
import pytest

from tidegate.core.records import Answer, Committable, Evidence, JournalRef, Outcome
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.printing import PrintSink
from tidegate.sinks.write_ahead import DecidedEpoch, WriteAheadSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from
from tidegate.testing.memory import MemorySink


class Kept(WriteAheadSink):
    """Keeps what was published, and says what the test tells it to."""

    def __init__(self) -> None:
        super().__init__("numbers")
        self.published: list[tuple[int, list[int]]] = []
        self.shown: dict[int, Evidence] = {}
        self.error: Exception | None = None
        self.has: bool | Exception | None = None

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        if self.error is not None:
            raise self.error
        ids = [row["id"] for batch in batches for row in batch.to_pylist()]
        self.published.append((epoch.number, ids))

    def confirmed(self, epoch: DecidedEpoch) -> bool | None:
        if isinstance(self.has, Exception):
            raise self.has
        return self.has

    def evidence(self, committable: Committable) -> Evidence:
        return self.shown.get(committable.attempt.task, Evidence.ABSENT)


def opened(sink: WriteAheadSink, journal: dict[str, pa.RecordBatch]) -> WriteAheadSink:
    def read(reference: JournalRef) -> list[pa.RecordBatch]:
        return [journal[reference.name]]

    sink.open(SinkPlan(identity=IDENTITY, schema=SCHEMA, mode="append", local_master=False, read_journal=read))
    return sink


def prepared(sink: WriteAheadSink, journal: dict[str, pa.RecordBatch], task: int, rows: int = 1) -> Committable:
    transaction = sink.begin(attempt_of(epoch=3, task=task))
    batch = rows_from(task, rows)
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    journal[f"t{task}"] = batch
    reference = JournalRef(name=f"t{task}", rows=rows, size_bytes=1, checksum="")
    return msgspec.structs.replace(committable, journal=reference)


@pytest.fixture
def journal() -> dict[str, pa.RecordBatch]:
    return {}


def test_rows_are_published_in_the_order_of_tasks(journal: dict[str, pa.RecordBatch]) -> None:
    sink = Kept()
    opened(sink, journal)
    tasks = [prepared(sink, journal, task) for task in (2, 0, 1)]
    assert [answer.outcome for answer in sink.commit(tasks)] == [Outcome.COMMITTED] * 3
    assert sink.published == [(3, [0, 1000, 2000])]


def test_what_the_target_has_is_not_published_again(journal: dict[str, pa.RecordBatch]) -> None:
    sink = Kept()
    opened(sink, journal)
    tasks = [prepared(sink, journal, task) for task in range(2)]
    sink.shown = {0: Evidence.PRESENT, 1: Evidence.PRESENT}
    assert [answer.outcome for answer in sink.commit(tasks)] == [Outcome.ALREADY] * 2
    assert sink.published == []


@pytest.mark.parametrize("evidence", [Evidence.UNKNOWN, Evidence.OTHER])
def test_unclear_evidence_publishes_nothing(journal: dict[str, pa.RecordBatch], evidence: Evidence) -> None:
    sink = Kept()
    opened(sink, journal)
    tasks = [prepared(sink, journal, task) for task in range(2)]
    sink.shown = {1: evidence}
    assert [answer.outcome for answer in sink.commit(tasks)] == [Outcome.RETRY, Outcome.UNKNOWN]
    assert sink.published == []


def test_a_confirmed_epoch_is_not_published_again(journal: dict[str, pa.RecordBatch]) -> None:
    sink = Kept()
    opened(sink, journal)
    tasks = [prepared(sink, journal, task) for task in range(2)]
    sink.has = True
    assert [answer.outcome for answer in sink.commit(tasks)] == [Outcome.ALREADY] * 2
    assert sink.published == []


def test_an_epoch_that_the_target_does_not_have_is_published_without_a_look_at_its_transactions(
    journal: dict[str, pa.RecordBatch],
) -> None:
    sink = Kept()
    opened(sink, journal)
    tasks = [prepared(sink, journal, task) for task in range(2)]
    sink.has, sink.shown = False, dict.fromkeys(range(2), Evidence.UNKNOWN)
    assert [answer.outcome for answer in sink.commit(tasks)] == [Outcome.COMMITTED] * 2
    assert sink.published == [(3, [0, 1000])]


def test_a_target_that_cannot_be_asked_now_gets_nothing_yet(journal: dict[str, pa.RecordBatch]) -> None:
    sink = Kept()
    opened(sink, journal)
    committable = prepared(sink, journal, 0)
    sink.has = TimeoutError("no answer")
    (answer,) = sink.commit([committable])
    assert (answer.outcome, answer.detail) == (Outcome.RETRY, "no answer")
    assert sink.published == []


def test_the_key_of_an_epoch_is_the_same_in_each_process_and_of_no_other_epoch(
    journal: dict[str, pa.RecordBatch],
) -> None:
    tasks = tuple(prepared(Kept(), journal, task) for task in range(2))
    epoch = DecidedEpoch(IDENTITY, 3, tasks)
    assert DecidedEpoch(IDENTITY, 3, pickle.loads(pickle.dumps(tasks))).key == epoch.key
    others = [
        DecidedEpoch(IDENTITY, 4, tasks),
        DecidedEpoch(IDENTITY, 3, tasks[:1]),
        *(
            DecidedEpoch(msgspec.structs.replace(IDENTITY, **{name: value}), 3, tasks)
            for name, value in (("job_id", "other"), ("generation", 9), ("query", "other"), ("sink", "other"))
        ),
    ]
    assert len({each.key for each in (epoch, *others)}) == 1 + len(others)


def demand_committed(answers: Sequence[Answer]) -> None:
    assert {answer.outcome for answer in answers} == {Outcome.COMMITTED}


class Keyed(WriteAheadSink):
    """Its target takes each key once. `arrived` is called when the target was asked and nothing is written yet."""

    def __init__(self, target: dict[str, list[int]], arrived: Callable[[], None] | None = None) -> None:
        super().__init__("numbers")
        self.target = target
        self.arrived = arrived

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        rows = [row["id"] for batch in batches for row in batch.to_pylist()]
        if self.arrived is not None:
            self.arrived()
        self.target.setdefault(epoch.key, rows)

    def confirmed(self, epoch: DecidedEpoch) -> bool:
        return epoch.key in self.target

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.UNKNOWN


def test_a_driver_that_was_paused_between_its_question_and_its_write_repeats_nothing(
    journal: dict[str, pa.RecordBatch],
) -> None:
    target: dict[str, list[int]] = {}
    tasks: list[Committable] = []
    successor = Keyed(target)
    paused = Keyed(target, lambda: demand_committed(successor.commit(tasks)))
    for sink in (paused, successor):
        opened(sink, journal)
    tasks += [prepared(paused, journal, task) for task in range(2)]
    paused.commit(tasks)
    assert list(target.values()) == [[0, 1000]]


class Remote:
    """A target behind a queue. The first write waits there, and its sender gets no answer."""

    def __init__(self, *, refuses_a_second: bool) -> None:
        self.writes: list[tuple[str, list[int]]] = []
        self._refuses = refuses_a_second
        self._under_way: list[tuple[str, list[int]]] = []

    def send(self, key: str, rows: list[int]) -> None:
        if not self._under_way:
            self._under_way.append((key, rows))
            raise TimeoutError("no answer")
        self._store(key, rows)

    def has(self, key: str) -> bool:
        return any(key == stored for stored, _ in self.writes)

    def deliver(self) -> None:
        """The queue moves on."""
        for key, rows in self._under_way:
            self._store(key, rows)

    def _store(self, key: str, rows: list[int]) -> None:
        if not (self._refuses and self.has(key)):
            self.writes.append((key, rows))


class Sending(WriteAheadSink):
    def __init__(self, to: Remote) -> None:
        super().__init__("numbers")
        self._to = to

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        self._to.send(epoch.key, [row["id"] for batch in batches for row in batch.to_pylist()])

    def confirmed(self, epoch: DecidedEpoch) -> bool:
        return self._to.has(epoch.key)

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.UNKNOWN


@pytest.mark.parametrize(("refuses_a_second", "stored"), [(True, [[0]]), (False, [[0], [0]])])
def test_a_write_that_arrives_after_the_question_is_stopped_by_a_target_that_takes_a_key_once_and_by_nothing_else(
    journal: dict[str, pa.RecordBatch], refuses_a_second: bool, stored: list[list[int]]
) -> None:
    remote = Remote(refuses_a_second=refuses_a_second)
    sink = Sending(remote)
    opened(sink, journal)
    committable = prepared(sink, journal, 0)
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.RETRY], "no answer"
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.COMMITTED], "it was not there"
    remote.deliver()
    assert [rows for _, rows in remote.writes] == stored
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.ALREADY]


def test_a_target_that_is_down_is_tried_again(journal: dict[str, pa.RecordBatch]) -> None:
    sink = Kept()
    opened(sink, journal)
    committable = prepared(sink, journal, 0)
    sink.error = ConnectionRefusedError("port 80")
    (answer,) = sink.commit([committable])
    assert (answer.outcome, answer.detail) == (Outcome.RETRY, "port 80")


def test_a_fault_of_the_users_code_is_not_swallowed(journal: dict[str, pa.RecordBatch]) -> None:
    sink = Kept()
    opened(sink, journal)
    committable = prepared(sink, journal, 0)
    sink.error = KeyError("price")
    with pytest.raises(KeyError):
        sink.commit([committable])


def test_neither_the_journal_nor_the_rows_go_to_the_tasks(journal: dict[str, pa.RecordBatch]) -> None:
    sink = MemorySink("numbers")
    opened(sink, journal)
    sink.commit([prepared(sink, journal, 0)])
    assert len(sink.rows) == 1
    assert pickle.loads(pickle.dumps(sink)).rows == []


def test_a_journal_that_breaks_off_leaves_no_rows_and_no_evidence() -> None:
    sink = MemorySink("numbers")
    journal: dict[str, pa.RecordBatch] = {}
    opened(sink, journal)
    tasks = [prepared(sink, journal, task) for task in range(2)]
    del journal["t1"]
    with pytest.raises(KeyError):
        sink.commit(tasks)
    assert sink.rows == []
    assert sink.evidence(tasks[0]) is Evidence.ABSENT


def test_an_epoch_is_printed_once_with_its_first_rows(
    journal: dict[str, pa.RecordBatch], capsys: pytest.CaptureFixture[str]
) -> None:
    sink = PrintSink("numbers", limit=3)
    opened(sink, journal)
    sink.commit([prepared(sink, journal, 0, rows=2), prepared(sink, journal, 1, rows=2)])
    printed = capsys.readouterr().out
    assert "by-day / numbers, epoch 3: 3 of 4 rows" in printed
    assert "word 1000" in printed
    assert "word 1001" not in printed


def test_printing_takes_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    sink = PrintSink("numbers")
    batch = pa.RecordBatch.from_pydict({"[red]name[/]": ["[bold]x", None]})
    opened(sink, {"t0": batch})
    reference = JournalRef(name="t0", rows=2, size_bytes=1, checksum="")
    committable = Committable(attempt=attempt_of(), rows=2, digest="d", journal=reference)
    sink.commit([committable])
    printed = capsys.readouterr().out
    assert "[red]name[/]" in printed
    assert "[bold]x" in printed


def printed(batch: pa.RecordBatch) -> None:
    sink = PrintSink("numbers")
    opened(sink, {"t0": batch})
    reference = JournalRef(name="t0", rows=batch.num_rows, size_bytes=1, checksum="")
    sink.commit([Committable(attempt=attempt_of(), rows=batch.num_rows, digest="d", journal=reference)])


def test_a_long_value_is_printed_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1], "text": ["begin " + "x" * 200 + " end"]})
    printed(batch)
    assert f"│ 1  │ begin {'x' * 200} end │" in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    monkeypatch.setenv("COLUMNS", "40")
    printed(batch)
    shown = capsys.readouterr().out
    assert shown.count("x") == 200 + 1, "and the one of the name"
    assert "…" not in shown
    assert max(map(len, re.sub("\x1b[^m]*m", "", shown).split("\n")[1:])) <= 40


def test_a_text_that_a_terminal_would_obey_or_hide_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["", " a", "\x1b[31mred", "a\nb", "\x9b2J", ":smile:", 'say "hi"', '"quoted"', None]
    printed(pa.RecordBatch.from_pydict({"text": texts, "list": [[each] for each in texts]}))
    rows = [line for line in capsys.readouterr().out.split("\n") if line.startswith("│")]
    assert [line.split("│")[1].strip() for line in rows] == [
        '""',
        '" a"',
        '"\\u001b[31mred"',
        '"a\\nb"',
        '"\\u009b2J"',
        ":smile:",
        'say "hi"',
        '"\\"quoted\\""',
        "",
    ]
    assert [json.loads(line.split("│")[2]) for line in rows] == [[each] for each in texts]


def test_a_console_without_unicode_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    console = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", console)
    printed(pa.RecordBatch.from_pydict({"täxt": ["ä😀", "a"], "list": [["ä"], []]}))
    console.flush()
    shown = console.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert '"t\\u00e4xt"' in shown
    assert '"\\u00e4\\ud83d\\ude00"' in shown
    assert '["\\u00e4"]' in shown
