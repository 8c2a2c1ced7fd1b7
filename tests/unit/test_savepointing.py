"""Savepoints beside a job that runs, and at its end: one id is one savepoint, and no end waits for one."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.saved_job import running, write_job
from tests.support.saving import BOUND_SECONDS, Gate, code_of, error_of, savepoints
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import Incarnation, Wrong
from tidegate.operate.control import Answer, Desk, Kind, Outcome, Request
from tidegate.operate.copy_progress import CopyProgress, read_progress, write_progress
from tidegate.operate.endings import EndMode
from tidegate.operate.job_end import wrong_of
from tidegate.savepoints.folder import dispose, open_savepoint, savepoints_in, verify
from tidegate.savepoints.state_tables import StateTable
from tidegate.savepoints.take import HELD, STEPS, remove_held
from tidegate.spark import savepointing
from tidegate.spark.clerk import Clerk
from tidegate.spark.figures import Figures, JobFigures
from tidegate.spark.last_savepoint import LastSavepoint
from tidegate.spark.savepointing import SavepointTaker, Taking
from tidegate.storages.schemes import Folder


def test_what_is_copied_when_the_job_ends_is_called_off_and_nothing_of_it_stays(tmp_path: Path):
    begun: list[Taking] = []
    arrived = threading.Event()

    def reach(step: str) -> None:
        if step == "held":
            arrived.set()
            assert begun[0].copying.called_off.wait(BOUND_SECONDS)

    saved = savepoints(tmp_path, reach)
    begun.append(saved.begin("one", None))
    waiting = saved.begin("two", None)
    assert arrived.wait(BOUND_SECONDS)
    saved.close("the job is STOPPED")
    for taking in (begun[0], waiting):
        error = error_of(taking.result)
        assert isinstance(error, TidegateError)
        assert (error.code, "the job is STOPPED" in error.found) == ("TG-SAVEPOINT-CUT-OFF", True)
    assert list((tmp_path / "saved").iterdir()) == []
    assert not (tmp_path / "job" / HELD).exists()
    assert code_of(lambda: saved.begin("three", None)) == "TG-REQUEST-REFUSED"


def test_an_end_does_not_wait_for_a_disk_that_hangs_and_the_next_start_is_not_harmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(savepointing, "_CALLED_OFF_WITHIN_SECONDS", 0.2)
    old, new = Gate("held"), Gate("held")
    before = savepoints(tmp_path, old.reach)
    hung = before.begin("one", None)
    assert old.arrived.wait(BOUND_SECONDS)
    before.begin("behind-it", None)
    begun = time.monotonic()
    before.close("the job is STOPPED")
    assert time.monotonic() - begun < BOUND_SECONDS / 2
    assert code_of(hung.result) == "TG-SAVEPOINT-CUT-OFF"

    remove_held(Folder.of(tmp_path / "job"))  # the next start
    after = SavepointTaker(running(tmp_path / "job", new.reach), str(tmp_path / "saved"))
    another = after.begin("two", None)
    assert new.arrived.wait(BOUND_SECONDS)
    old.opened.set()
    before_is_over(before)
    new.opened.set()
    savepoint = another.result()
    assert verify(savepoint) == []
    assert [path.name for path in (tmp_path / "saved").iterdir()] == [savepoint.folder.name]
    assert not (tmp_path / "job" / HELD).exists()


def before_is_over(closed: SavepointTaker) -> None:
    """Its thread has come to its end."""
    assert closed._thread is not None
    closed._thread.join(BOUND_SECONDS)
    assert not closed._thread.is_alive()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_what_copies_beside_a_running_job_gives_way_to_its_epochs(tmp_path: Path):
    found: list[int] = []
    saved = savepoints(tmp_path, lambda _: found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    saved.begin("one", None).result()
    assert min(found) > mine
    saved.begin_last("end", None).result()
    assert found[-1] == mine == os.getpriority(os.PRIO_PROCESS, threading.get_native_id()), "the job's end waits for it"
    saved.close("the test is over")


def test_where_no_thread_may_give_way_a_savepoint_is_taken_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(savepointing.os, "setpriority", refuse)
    saved = savepoints(tmp_path)
    taking = saved.begin("one", None)
    taking.end_by(time.monotonic() + BOUND_SECONDS)
    assert verify(taking.result()) == []
    saved.close("the test is over")


@pytest.mark.parametrize("step", [step for step in STEPS if step != "renamed"])
def test_called_off_at_any_step_it_never_appears(tmp_path: Path, step: str):
    gate = Gate(step)
    saved = savepoints(tmp_path, gate.reach)
    taking = saved.begin("one", None)
    assert gate.arrived.wait(BOUND_SECONDS)
    assert taking.copying.call_off("the job is STOPPED")
    gate.opened.set()
    assert code_of(taking.result) == "TG-SAVEPOINT-CUT-OFF"
    assert savepoints_in(tmp_path / "saved") == ([], [])
    saved.close("the test is over")


def test_one_that_has_its_name_when_the_job_ends_is_there(tmp_path: Path):
    gate = Gate("renamed")
    saved = savepoints(tmp_path, gate.reach)
    taking = saved.begin("one", None)
    assert gate.arrived.wait(BOUND_SECONDS)
    closing = threading.Thread(target=saved.close, args=("the job is STOPPED",))
    closing.start()
    gate.opened.set()
    closing.join(BOUND_SECONDS)
    assert verify(taking.result()) == []


def test_an_id_stands_for_one_savepoint_in_one_folder_and_is_tried_again_when_it_failed(tmp_path: Path):
    steps: list[str] = []

    def reach(step: str) -> None:
        steps.append(step)
        if steps == ["held", "copied"]:
            raise RuntimeError("nobody has thought of this")

    saved = savepoints(tmp_path, reach)
    assert isinstance(error_of(saved.begin("one", None).result), RuntimeError)
    found = saved.begin("one", None).result()
    assert open_savepoint(found.folder) == found
    assert saved.begin("one", str(tmp_path / "saved")).result() == found
    assert code_of(lambda: saved.begin("one", str(tmp_path / "elsewhere"))) == "TG-REQUEST-REFUSED"
    assert not (tmp_path / "elsewhere").exists()
    saved.close("the test is over")


def test_one_that_is_not_there_any_more_is_taken_again_under_its_id_and_a_cut_one_is_not_given_for_whole(
    tmp_path: Path,
):
    saved = savepoints(tmp_path)
    found = saved.begin("one", None).result()
    dispose(found)
    again = saved.begin("one", None).result()
    assert verify(again) == []
    (again.folder / again.record.files[0].name).unlink()
    assert code_of(saved.begin("one", None).result) == "TG-SAVEPOINT-INCOMPLETE"
    saved.close("the test is over")


@pytest.mark.parametrize("place", ["job", f"job/{HELD}", "job/queries/query", "other/checkpoints", "link", "taken"])
def test_a_folder_that_belongs_to_a_job_or_a_savepoint_is_refused(tmp_path: Path, place: str):
    saved = savepoints(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "job.json").touch()
    (tmp_path / "link").symlink_to(tmp_path / "job")
    saved.begin("one", None).result().folder.rename(tmp_path / "taken")
    before = sorted(path.name for path in tmp_path.iterdir())
    for folder in (tmp_path / place, tmp_path / place / "below"):
        for look in (lambda at: saved.begin("two", at), lambda at: saved.look_at("two", at)):
            assert code_of(look(str(folder)).result) == "TG-REQUEST-REFUSED"
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert not (tmp_path / "job" / HELD).exists()
    saved.close("the test is over")


def test_the_one_of_the_jobs_end_does_not_wait_for_another_ones_disk_and_none_begins_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(savepointing, "_CALLED_OFF_WITHIN_SECONDS", 0.2)
    hung, end = Gate("copied"), Gate("described")

    def reach(step: str) -> None:
        (end if hung.arrived.is_set() and step != "copied" else hung).reach(step)

    saved = savepoints(tmp_path, reach)
    before = saved.begin("one", str(tmp_path / "hung"))
    assert hung.arrived.wait(BOUND_SECONDS)
    monkeypatch.setattr(hung, "reach", lambda _step: None)
    last = saved.begin_last("two", None)
    assert end.arrived.wait(BOUND_SECONDS / 3), "it waits for a disk that is not its own"
    assert code_of(before.result) == "TG-SAVEPOINT-CUT-OFF"
    assert code_of(lambda: saved.begin("three", None)) == "TG-REQUEST-REFUSED"
    end.opened.set()
    assert verify(last.result()) == []
    hung.opened.set()
    saved.close("the test is over")
    before_is_over(saved)
    assert verify(last.result()) == []


# --- what is answered --------------------------------------------------------------------------------------


class Standing:
    """What the clerk asks of a job that stands still with everything done."""

    name = "job"
    is_drained = False
    left_behind = None

    def __init__(self, saved: SavepointTaker) -> None:
        self._saved = saved
        self.last_savepoint = LastSavepoint(self.name)
        self.figures = JobFigures(["query"])
        self.figures.of["query"] = Figures(epoch=3, finished=3)
        self.outcome = self

    def savepoints(self) -> SavepointTaker:
        return self._saved

    def wrong(self, error: BaseException | None) -> Wrong:
        return wrong_of(error)


MINE = Incarnation(host="here", process=7, started_at=1.0)


def desk_of(folder: Path, saved: SavepointTaker) -> tuple[Clerk, Desk]:
    clerk = Clerk(Folder.of(folder / "job"), MINE, [])
    clerk.begin(Standing(saved))  # type: ignore[arg-type]
    return clerk, Desk(folder / "job")


def ask(desk: Desk, request_id: str, into: str | None = None) -> None:
    desk.ask(Request(id=request_id, kind=Kind.SAVEPOINT, to=MINE, asked_at=1.0, asked_by="a test", into=into))


def answered(clerk: Clerk, desk: Desk, request_id: str) -> Answer:
    end = time.monotonic() + BOUND_SECONDS
    while (answer := desk.answer_to(request_id)) is None:
        assert time.monotonic() < end, f"request {request_id} is not answered"
        clerk.tick()
    return answer


def test_an_error_nobody_has_thought_of_is_answered_and_asked_again_the_savepoint_is_taken(tmp_path: Path):
    steps: list[str] = []

    def reach(step: str) -> None:
        steps.append(step)
        if len(steps) == 1:
            raise RuntimeError("nobody has thought of this")

    saved = savepoints(tmp_path, reach)
    clerk, desk = desk_of(tmp_path, saved)
    ask(desk, "one")
    failed = answered(clerk, desk, "one")
    assert (failed.outcome, "nobody has thought of this" in failed.detail) == (Outcome.FAILED, True)
    ask(desk, "one")
    done = answered(clerk, desk, "one")
    assert (done.outcome, done.epochs) == (Outcome.DONE, {"query": 3})
    assert done.savepoint is not None
    assert verify(open_savepoint(Path(done.savepoint))) == []
    saved.close("the test is over")


@pytest.mark.parametrize(
    ("in_the_way", "outcome"), [("a full disk", Outcome.FAILED), ("a folder of a job", Outcome.REFUSED)]
)
def test_what_the_disk_has_against_a_savepoint_is_a_failure_and_no_refusal(
    tmp_path: Path, in_the_way: str, outcome: Outcome
):
    def be_full(_step: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    saved = savepoints(tmp_path, be_full)
    clerk, desk = desk_of(tmp_path, saved)
    ask(desk, "one", None if in_the_way == "a full disk" else str(tmp_path / "job"))
    assert answered(clerk, desk, "one").outcome is outcome
    saved.close("the test is over")


class Running(Standing):
    """It notes how its end is asked for."""

    def __init__(self, saved: SavepointTaker, *, a_stop_takes_a_savepoint: bool = False) -> None:
        super().__init__(saved)
        self.a_stop_takes_a_savepoint = a_stop_takes_a_savepoint
        self.asked: list[str] = []

    def ask_to_end_with_savepoint(self, ending: EndMode, id: str, into: str | None, form: SavepointFormat) -> None:
        self.asked.append(f"{ending.value} with {id}" + ("" if form is SavepointFormat.NATIVE else f", {form.value}"))

    def ask_to_stop(self) -> None:
        self.asked.append("stop")


def hear(
    folder: Path, handle: Running, kind: Kind, *forgetful: str, form: SavepointFormat = SavepointFormat.NATIVE
) -> Answer | None:
    """What becomes of a request in some looks at the desk."""
    clerk, desk = Clerk(Folder.of(folder / "job"), MINE, forgetful), Desk(folder / "job")
    clerk.begin(handle)  # type: ignore[arg-type]
    desk.ask(Request(id="one", kind=kind, to=MINE, asked_at=1.0, asked_by="a test", format=form))
    end = time.monotonic() + BOUND_SECONDS
    while not handle.asked and desk.answer_to("one") is None:
        assert time.monotonic() < end, "nobody hears the request"
        clerk.tick()
    return desk.answer_to("one")


def test_a_job_whose_source_keeps_nothing_is_not_stopped_with_a_savepoint_either_but_canceled(tmp_path: Path):
    saved = savepoints(tmp_path)
    handle = Running(saved)
    refused = hear(tmp_path, handle, Kind.STOP_WITH_SAVEPOINT, "lines")
    assert refused is not None
    assert (refused.outcome, "source lines keeps nothing" in refused.detail) == (Outcome.REFUSED, True)
    assert "`tidegate cancel job -s`" in refused.detail
    assert handle.asked == []
    Desk(tmp_path / "job").withdraw(refused)
    assert hear(tmp_path, handle, Kind.CANCEL_WITH_SAVEPOINT, "lines") is None
    assert handle.asked == ["cancel with one"]
    saved.close("the test is over")


def with_rows(folder: Path) -> SavepointTaker:
    """Of a job that can have canonical ones."""

    def write_rows(table: StateTable, into: Path) -> None:
        into.mkdir()
        (into / "part-00000.parquet").write_text(str(table))

    write_job(folder / "job")
    job = replace(running(folder / "job"), open_tables=lambda *_: nullcontext(write_rows))
    return SavepointTaker(job, str(folder / "saved"))


def test_the_type_that_is_asked_for_reaches_whoever_takes_the_savepoint(tmp_path: Path):
    canonical = SavepointFormat.CANONICAL
    ending = with_rows(tmp_path / "ending")
    handle = Running(ending)
    assert hear(tmp_path / "ending", handle, Kind.STOP_WITH_SAVEPOINT, form=canonical) is None
    assert handle.asked == ["stop with one, canonical"]
    assert ending.begin_last("one", None, canonical).result().record.format is canonical

    saved = with_rows(tmp_path / "running")
    clerk, desk = desk_of(tmp_path / "running", saved)
    asked = Request(id="one", kind=Kind.SAVEPOINT, to=MINE, asked_at=1.0, asked_by="a test", format=canonical)
    desk.ask(asked)
    done = answered(clerk, desk, "one")
    assert done.savepoint is not None
    assert open_savepoint(Path(done.savepoint)).record.format is canonical
    assert code_of(lambda: saved.begin("one", None)) == "TG-REQUEST-REFUSED"
    for each in (ending, saved):
        each.close("the test is over")


def test_a_type_that_cannot_be_had_is_refused_before_anything_is_stopped(tmp_path: Path):
    saved = savepoints(tmp_path)  # nothing writes tables
    handle = Running(saved)
    refused = hear(tmp_path, handle, Kind.STOP_WITH_SAVEPOINT, form=SavepointFormat.CANONICAL)
    assert refused is not None
    assert (refused.outcome, "TG-SAVEPOINT-REFUSED" in refused.detail) == (Outcome.REFUSED, True)
    assert handle.asked == []
    saved.close("the test is over")


@pytest.mark.parametrize(("takes", "asked"), [(True, "stop with one"), (False, "stop")])
def test_a_stop_takes_a_savepoint_where_the_job_has_a_folder_for_them(tmp_path: Path, takes: bool, asked: str):
    saved = savepoints(tmp_path)
    handle = Running(saved, a_stop_takes_a_savepoint=takes)
    assert hear(tmp_path, handle, Kind.STOP) is None
    assert handle.asked == [asked]
    saved.close("the test is over")


def test_a_stop_takes_no_savepoint_unasked_where_no_folder_is_set(tmp_path: Path):
    saved = savepoints(tmp_path)
    assert saved.are_taken_unasked()
    assert not SavepointTaker(running(tmp_path / "job"), None).are_taken_unasked()


def test_an_id_asked_by_the_program_for_one_folder_is_refused_at_the_desk_for_another(tmp_path: Path):
    saved = savepoints(tmp_path)
    first = saved.begin("one", None).result()
    clerk, desk = desk_of(tmp_path, saved)
    ask(desk, "one", str(tmp_path / "elsewhere"))
    refused = answered(clerk, desk, "one")
    assert (refused.outcome, str(first.folder.parent) in refused.detail) == (Outcome.REFUSED, True)
    saved.close("the test is over")


def test_who_asked_for_what_was_copied_when_the_job_ended_hears_so_at_once(tmp_path: Path):
    gate = Gate("held")
    saved = savepoints(tmp_path, gate.reach)
    clerk, desk = desk_of(tmp_path, saved)
    ask(desk, "one")
    while not gate.arrived.is_set():
        clerk.tick()
    taking = saved.begin("one", None)
    closing = threading.Thread(target=saved.close, args=("the job is STOPPED",))
    closing.start()
    assert taking.copying.called_off.wait(BOUND_SECONDS)
    gate.opened.set()
    closing.join(BOUND_SECONDS)
    clerk.last(None)
    answer = desk.answer_to("one")
    assert answer is not None
    assert (answer.outcome, "TG-SAVEPOINT-CUT-OFF" in answer.detail) == (Outcome.FAILED, True)
    assert savepoints_in(tmp_path / "saved") == ([], [])


def test_how_far_it_is_stands_beside_the_desk_until_it_is_there(tmp_path: Path):
    gate = Gate("copied")
    saved = savepoints(tmp_path, gate.reach)
    write_progress(tmp_path / "job", "of-a-killed-driver", CopyProgress(copied_bytes=1, total_bytes=2))
    clerk, desk = desk_of(tmp_path, saved)
    assert read_progress(tmp_path / "job", "of-a-killed-driver") is None
    ask(desk, "one")
    while not gate.arrived.is_set():
        assert desk.answer_to("one") is None
        clerk.tick()
    clerk._savepoints._told_at = float("-inf")  # as if a second had passed
    clerk.tick()
    told = read_progress(tmp_path / "job", "one")
    gate.opened.set()
    answer = answered(clerk, desk, "one")
    savepoint = open_savepoint(Path(answer.savepoint or ""))
    assert told == CopyProgress(copied_bytes=savepoint.size_bytes, total_bytes=savepoint.size_bytes)
    assert read_progress(tmp_path / "job", "one") is None
    saved.close("the test is over")


def test_no_savepoint_goes_into_a_container_that_is_removed_with_its_driver(tmp_path: Path):
    """`savepoints.dir` of a laptop's settings goes with the program."""
    job = running(tmp_path / "job")
    inside = SavepointTaker(job, "savepoints", in_container=True)
    for into in (None, "./savepoints"):
        error = error_of(lambda into=into: inside.check("one", into))
        assert isinstance(error, TidegateError)
        assert (error.code, "container" in error.found, "hdfs://" in error.next_step) == (
            "TG-REQUEST-REFUSED",
            True,
            True,
        )
    for into in (f"{tmp_path}/", f"file:{tmp_path}", "hdfs://host:8020/savepoints", "s3://bucket/savepoints/"):
        assert inside.check("one", into) == Folder.of(into)
    assert SavepointTaker(job, "savepoints").check("one", None) == Folder.of("savepoints")
