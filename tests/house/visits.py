"""How far a reader has to walk to follow a restore or a stop through the code: `python -m tests.house.measures visits`.

A small job runs on Spark, is stopped, and restored from a savepoint, while each call of a function is noted. The
reader follows the calls in their order, reads each function once, where it is called first, and turns the page whenever
the next one stands in another file. A stretch in one file is a *visit*; a visit to a file that was seen before is a
*return*. A restore begins at the function that carries it out, a stop in the thread that watches over the job. `disk/`
and `storages/` are not entered: what a durable write is, a reader knows; nor are comprehensions, which stand where they
are called.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from tests.house.repository import ROOT

SOURCE = f"{ROOT / 'src/tidegate'}{os.sep}"
NOT_ENTERED = ("disk/", "storages/")
STAND_IN_THEIR_CALLER = frozenset({"<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"})
CARRIES_A_RESTORE_OUT = frozenset({"carry_out"})
WATCHES_OVER_THE_JOB = "tidegate-job"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of tidegate that is entered, by its file below `src/tidegate`; `depth` counts those around it."""

    thread: str
    depth: int
    file: str
    function: str


@dataclass(frozen=True, slots=True)
class Walk:
    """What a reader of these calls does."""

    visits: int
    files: int
    functions: int

    @property
    def returns(self) -> int:
        return self.visits - self.files


def walked(calls: Iterable[Call]) -> Walk:
    read = list(
        dict.fromkeys(
            (each.file, each.function)
            for each in calls
            if each.function not in STAND_IN_THEIR_CALLER and not each.file.startswith(NOT_ENTERED)
        )
    )
    turned = sum(before[0] != after[0] for before, after in pairwise(read))
    return Walk(visits=turned + bool(read), files=len({file for file, _ in read}), functions=len(read))


def below(calls: Iterable[Call], functions: frozenset[str], folder: str) -> Iterator[Call]:
    """The calls from one of these functions of a folder until it ends."""
    around: int | None = None
    for call in calls:
        if around is not None and call.depth <= around:
            around = None
        if around is None and call.function in functions and call.file.startswith(folder):
            around = call.depth
        if around is not None:
            yield call


@dataclass(slots=True)
class Recorder:
    """A profiler of all threads that begin later, and of this one."""

    calls: list[Call] = field(default_factory=list[Call])
    is_on: bool = False

    def install(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def during(self, act: Callable[[], object]) -> list[Call]:
        """The calls of all threads while `act` runs."""
        self.calls, self.is_on = [], True
        try:
            act()
        finally:
            self.is_on = False
        return self.calls

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if self.is_on and event == "call" and file.startswith(SOURCE):
            name = file.removeprefix(SOURCE)
            self.calls.append(Call(threading.current_thread().name, _depth(frame), name, frame.f_code.co_name))


def _depth(frame: FrameType | None) -> int:
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def show() -> NoReturn:
    """Run the job, print the table, and end the process, with Spark in it."""
    recorder = Recorder()
    recorder.install()
    with tempfile.TemporaryDirectory(prefix="tidegate-visits-") as folder:
        restore, stop = _lived(Path(folder), recorder)
    main = threading.main_thread().name
    rows = {
        "a restore": walked(below((each for each in restore if each.thread == main), CARRIES_A_RESTORE_OUT, "spark/")),
        "a stop": walked(each for each in stop if each.thread == WATCHES_OVER_THE_JOB),
    }
    table = Table("followed", "visits", "files", "returns", "functions", title="visits")
    for name, walk in rows.items():
        table.add_row(name, *map(str, (walk.visits, walk.files, walk.returns, walk.functions)))
    Console(width=100).print(table)
    sys.stdout.flush()
    os._exit(0)


def _lived(folder: Path, recorder: Recorder) -> tuple[list[Call], list[Call]]:
    """The calls of a restore, and of a stop."""
    from tests.support.session import small_session
    from tidegate import FileSource, Job, SQLiteSink

    (folder / "in").mkdir()
    (folder / "in" / "0.json").write_text('{"word": "sea"}\n', encoding="utf-8")
    session = small_session()

    def job() -> Job:
        made = Job("job", spark=session, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval="100ms")
        words = made.source("words", FileSource(str(folder / "in"), format="json", schema="word string"))
        table = SQLiteSink("table", folder / "out.db", table="words", key="word")
        made.query("counts", words.groupBy("word").count(), mode="update", sinks=[table])
        return made

    first = job().start()
    first.checkpoint()
    saved = first.savepoint(folder / "saved")
    stop = recorder.during(first.stop)
    restored = recorder.during(lambda: job().start(until="caught-up", savepoint=saved).wait())
    return restored, stop
