"""A job that ends with a savepoint: it is of the end, and a repeat takes what a kill has left out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.jobs.folders import another_driver, say, tidegate
from tests.support.restored_job import restore, restoring
from tests.support.saved_job import QUERY, RECORD, begin, commits, finish, query_folder, running, write, write_job
from tests.support.saving import BOUND_SECONDS, Gate, code_of, error_of, savepoints
from tidegate.core.errors import TidegateError
from tidegate.core.records import Drain, encode
from tidegate.operate.beat import JobState
from tidegate.savepoints.folder import open_savepoint, savepoints_in, verify
from tidegate.savepoints.hold import RunningQuery
from tidegate.savepoints.take import HELD, STEPS, take, take_last
from tidegate.spark.last_savepoint import LastSavepoint
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

ROOT = Path(__file__).parents[2]


def ended_job(folder: Path) -> Path:
    """A job that was stopped with epochs 0 to 3 done."""
    write_job(folder / "job")
    (folder / "job" / "locks").mkdir()
    (folder / "job" / "job.json").write_bytes(encode(RECORD))
    say(folder / "job", JobState.STOPPED)
    return folder / "job"


def stop(folder: Path, *arguments: str) -> tuple[int, str]:
    return tidegate("stop", *arguments, "--dir", str(folder))


def test_one_of_the_end_is_never_one_of_an_earlier_epoch(tmp_path: Path):
    job, into = write_job(tmp_path / "job"), tmp_path / "saved"
    early = take(job, "one", into)
    assert take_last(job, "one", into) == early
    finish(tmp_path / "job", 4)
    last = take_last(job, "one", into)
    assert (last.record.id, last.record.queries[0].done.epoch) == ("one-2", 4)
    assert take_last(job, "one", into) == last
    assert verify(early) == verify(last) == []


def test_one_of_the_end_is_the_same_in_whatever_order_the_queries_are_named(tmp_path: Path):
    """The driver has them in the order of the program; the command, which takes what is missing, by their names."""
    job, into = write_job(tmp_path / "job"), tmp_path / "saved"
    (first,) = job.queries
    shutil.copytree(first.folder.local(), tmp_path / "job/queries/another/g1")
    another = RunningQuery(
        replace(QUERY, uid="another"), Folder.of(tmp_path / "job/queries/another/g1"), first.epochs_kept
    )
    taken = take_last(replace(job, queries=[first, another]), "one", into)
    assert take_last(replace(job, queries=[another, first]), "one", into) == taken


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_the_same_command_again_ends_with_one_whole_savepoint(tmp_path: Path, step: str):
    job, into = ended_job(tmp_path), tmp_path / "saved"
    command = [sys.executable, "-m", "tests.support.saved_job", str(job), str(into), step]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    code, said = stop(tmp_path, "job", "-p", str(into), "--id", "fixed", "--json")
    answer = json.loads(said)
    assert (code, answer["outcome"], answer["epochs"]) == (0, "done", {"query": 3})
    assert verify(open_savepoint(Path(answer["savepoint"]))) == []
    assert [path.name for path in into.iterdir()] == ["savepoint-0f1e2d3c-fixed"]
    assert not (job / HELD).exists()
    assert stop(tmp_path, "job", "-p", str(into), "--id", "fixed", "--json") == (0, said)


def test_what_spark_has_begun_and_nobody_decided_is_not_in_it(tmp_path: Path):
    begin(ended_job(tmp_path), 4)
    assert stop(tmp_path, "job", "-p", str(tmp_path / "saved"))[0] == 0
    ([savepoint], _) = savepoints_in(tmp_path / "saved")
    assert savepoint.record.queries[0].done.epoch == 3


def test_a_job_with_a_decided_epoch_that_is_not_done_is_refused_and_started_first(tmp_path: Path):
    job = ended_job(tmp_path)
    begin(job, 4)
    write(job, "spark/commits/4", commits(4))
    code, said = stop(tmp_path, "job", "-p", str(tmp_path / "saved"))
    assert (code, "TG-SAVEPOINT-REFUSED" in said, "epoch 4 decided" in said) == (4, True, True)
    assert not (tmp_path / "saved").exists()


def test_a_query_that_a_restore_has_renamed_is_in_it_though_no_driver_has_told_of_it_yet(tmp_path: Path):
    """The driver was killed behind the restore: the last beat is that of one before, with the names of then."""
    job = ended_job(tmp_path)
    restore(restoring(job, take(running(job), "one", tmp_path / "saved")))
    shutil.copytree(job / "queries/query/g2", job / "queries/renamed/g2")
    assert stop(tmp_path, "job", "-p", str(tmp_path / "saved"), "--id", "two")[0] == 0
    found = open_savepoint(tmp_path / "saved/savepoint-0f1e2d3c-two")
    assert [query.done.query for query in found.record.queries] == ["query", "renamed"]
    (job / "queries/renamed/g2/ledger/runs/5").touch()  # a driver had it since, and its program has it no more
    assert stop(tmp_path, "job", "-p", str(tmp_path / "saved"), "--id", "three")[0] == 0
    found = open_savepoint(tmp_path / "saved/savepoint-0f1e2d3c-three")
    assert [query.done.query for query in found.record.queries] == ["query"]


@pytest.mark.parametrize("gone", ["drained", "closing"])
def test_a_job_that_nothing_goes_on_from_is_refused(tmp_path: Path, gone: str):
    job = ended_job(tmp_path)
    if gone == "drained":
        LocalStorage(job).replace("drain", encode(Drain(job_id=RECORD.job_id, since="then", ended="now")))
    else:
        (job / "closing").touch()
    code, said = stop(tmp_path, "job", "-p", str(tmp_path / "saved"))
    assert (code, "TG-SAVEPOINT-REFUSED" in said) == (4, True)


@pytest.mark.parametrize("arguments", [["job", "-p", "DIR"], ["-p", "DIR", "job"], ["job", "--savepointPath=DIR"]])
def test_the_path_stands_before_or_behind_the_job(tmp_path: Path, arguments: list[str]):
    ended_job(tmp_path)
    given = [each.replace("DIR", str(tmp_path / "saved")) for each in arguments]
    assert stop(tmp_path, *given, "--id", "one")[0] == 0
    assert (tmp_path / "saved" / "savepoint-0f1e2d3c-one").is_dir()


@pytest.mark.parametrize("arguments", [["-p", "job"], ["job", "-p"], ["-p", "--id", "one", "job"]])
def test_a_path_may_be_left_out_and_is_the_jobs_own_then(tmp_path: Path, arguments: list[str]):
    ended_job(tmp_path)
    code, said = stop(tmp_path, *arguments)
    assert (code, "a folder for the savepoint" in said) == (4, True)  # it has none: the JOB was not taken for it
    code, said = tidegate("cancel", *[each.replace("-p", "-s") for each in arguments], "--dir", str(tmp_path))
    assert (code, "a folder for the savepoint" in said) == (4, True)


def test_of_a_drained_job_only_who_says_so_has_a_savepoint_and_of_another_one_nobody_has_that(tmp_path: Path):
    job, saved = ended_job(tmp_path), tmp_path / "saved"
    code, said = stop(tmp_path, "job", "--drain", "-p", str(saved))
    assert (code, "found:    a job that was not drained" in said, savepoints_in(saved)) == (4, True, ([], []))
    LocalStorage(job).replace("drain", encode(Drain(job_id=RECORD.job_id, since="then", ended="now")))
    code, said = stop(tmp_path, "job", "-p", str(saved))
    assert (code, "`tidegate stop job --drain -p` takes a savepoint" in said) == (4, True)
    assert stop(tmp_path, "job", "-p", str(saved), "--drain", "--id", "end")[0] == 0
    assert (saved / "savepoint-0f1e2d3c-end").is_dir()


def test_what_takes_no_savepoint_has_no_type(tmp_path: Path):
    ended_job(tmp_path)
    assert stop(tmp_path, "job", "--type", "canonical")[0] == 2
    assert stop(tmp_path, "job", "-p", str(tmp_path / "saved"), "--type", "avro")[0] == 2
    assert tidegate("cancel", "job", "--type", "native", "--dir", str(tmp_path))[0] == 2


def test_no_spark_of_an_ended_job_writes_a_canonical_savepoint(tmp_path: Path):
    ended_job(tmp_path)
    into = str(tmp_path / "saved")
    for arguments in (["job", "-p", into, "--type", "canonical"], ["--type", "canonical", "-p", into, "job"]):
        code, said = stop(tmp_path, *arguments)
        assert (code, "TG-SAVEPOINT-REFUSED" in said, "--type native" in said) == (4, True, True)
    assert savepoints_in(tmp_path / "saved") == ([], [])
    assert stop(tmp_path, "job", "-p", into, "--type", "native", "--id", "one")[0] == 0
    code, said = stop(tmp_path, "job", "-p", into, "--type", "canonical", "--id", "one")
    assert (code, "choose another id" in said) == (4, True)


def test_a_job_that_runs_is_asked_and_told_how_to_ask_again(tmp_path: Path):
    job, into = ended_job(tmp_path), tmp_path / "saved"
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + 1)
        code, said = stop(tmp_path, "job", "-p", str(into), "--timeout", "200ms", "--id", "one")
        _, with_type = stop(
            tmp_path, "job", "-p", str(into), "--type", "canonical", "--timeout", "200ms", "--id", "two"
        )
    assert (code, f"tidegate stop job -p {into} --id one" in said) == (7, True)
    assert f"tidegate stop job -p {into} --type canonical --id two" in with_type
    assert not into.exists()
    code, said = stop(tmp_path, "job", "-p", str(into), "--id", "one")  # its driver has died
    assert (code, "died before the job had ended" in said) == (1, True)
    assert stop(tmp_path, "job", "-p", str(into), "--id", "one")[0] == 0
    assert stop(tmp_path, "job", "-p", str(into / "elsewhere"), "--id", "one")[0] == 4


# --- in the driver -----------------------------------------------------------------------------------------


def test_who_wants_the_end_sooner_has_it_and_that_is_no_failure(tmp_path: Path):
    gate = Gate("held")
    saved = savepoints(tmp_path, gate.reach)
    last = LastSavepoint("job")
    last.ask(saved, "one", None)
    assert last.pass_by(None)

    def want_it_sooner() -> None:
        assert gate.arrived.wait(BOUND_SECONDS)
        last.limit("a cancel", 0)
        assert last.taking is not None
        assert last.taking.copying.called_off.wait(BOUND_SECONDS)
        gate.opened.set()

    sooner = threading.Thread(target=want_it_sooner)
    sooner.start()
    last.take(saved, lambda: None)
    sooner.join()
    assert isinstance(last.error, TidegateError)
    assert (last.error.code, last.savepoint, last.is_all_that_failed) == ("TG-SAVEPOINT-CUT-OFF", None, False)
    assert savepoints_in(tmp_path / "saved")[0] == []
    saved.close("the test is over")


def test_what_the_disk_has_against_it_is_raised_and_the_job_has_ended_as_it_was_asked_to(tmp_path: Path):
    saved = savepoints(tmp_path)
    (tmp_path / "saved").write_text("no folder")
    last = LastSavepoint("job")
    last.ask(saved, "one", None)
    assert last.pass_by(None)
    error = error_of(lambda: last.take(saved, lambda: None))
    assert (error, last.is_all_that_failed) == (last.error, True)
    assert isinstance(error, TidegateError)
    assert error.code == "TG-STORAGE-UNUSABLE"
    assert saved.look_at("one", None).exception(BOUND_SECONDS) is not None  # so nothing would have been stopped
    saved.close("the test is over")


def test_it_is_asked_for_once_and_not_when_the_queries_have_ended(tmp_path: Path):
    saved = savepoints(tmp_path)
    last = LastSavepoint("job")
    last.ask(saved, "one", None)
    last.ask(saved, "one", None)
    for _ in range(2):
        assert code_of(lambda: last.ask(saved, "two", None)) == "TG-REQUEST-REFUSED"
        last.pass_by(None)
    failed = LastSavepoint("job")
    failed.ask(saved, "one", None)
    assert not failed.pass_by(RuntimeError("the job failed"))
    assert (str(failed.error), failed.is_all_that_failed) == ("the job failed", False)
    saved.close("the test is over")


def test_epochs_that_were_running_when_the_savepoint_was_taken_before_are_in_the_last_one(tmp_path: Path):
    saved = savepoints(tmp_path)
    early = saved.begin("one", None).result()
    finish(tmp_path / "job", 4)
    last = saved.begin_last("one", None).result()
    assert [each.record.queries[0].done.epoch for each in (early, last)] == [3, 4]
    assert query_folder(tmp_path / "job").exists()
    assert take_last(running(tmp_path / "job"), "one", tmp_path / "saved") == last
    saved.close("the test is over")


def test_take_of_a_job_that_has_ended_names_the_command_that_takes_one(tmp_path: Path):
    ended_job(tmp_path)
    into = str(tmp_path / "saved")
    code, said = tidegate("savepoint", "take", "job", into, "--dir", str(tmp_path))
    assert code == 4
    command = said.partition("tidegate ")[2].split()
    assert tidegate(*command)[0] == 0
    assert [each.record.job for each in savepoints_in(Path(into))[0]] == ["job"]
