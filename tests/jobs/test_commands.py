"""The commands that look at jobs and ask them: exit codes, what is refused, how light they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.jobs.folders import another_driver, make_job, say, tidegate
from tests.support import command
from tests.support.rights import modes_count
from tests.support.saved_job import RECORD, write_job
from tidegate import operate
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.errors import TidegateError
from tidegate.core.guarantees import Rows, Shows, guarantee_of
from tidegate.core.levels import Level
from tidegate.core.records import CheckpointRecord, Start, TakenPart, encode
from tidegate.operate.beat import BEAT, JobState, write_beat
from tidegate.operate.checkpoints_history import CheckpointsHistory
from tidegate.operate.control import Answer, Desk, Kind, Outcome
from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.operate.failures import Failure, add_failure
from tidegate.operate.guarantees import write_guarantees
from tidegate.operate.supervisor_lock import take_supervisor_lock
from tidegate.savepoints.folder import dispose
from tidegate.savepoints.take import take
from tidegate.storages.local.storage import LocalStorage

COMMANDS = ("info", "history", "checkpoint", "stop", "cancel")
SOON = 1.0


def answered(ticket: operate.Ticket) -> Answer:
    answer = ticket.wait(30).answer
    assert answer is not None
    return answer


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_job_has_an_exit_code_of_its_own(tmp_path: Path, command: str):
    make_job(tmp_path, "wordcount")
    code, output = tidegate(command, "wordcont", "--dir", str(tmp_path))
    assert (code, "TG-JOB-UNKNOWN" in output, str(tmp_path) in output) == (3, True, True)
    assert "did you mean wordcount?" in output


@pytest.mark.parametrize("name", ["../wordcount", "nul\0", "x" * 10_000])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_name_is_wrong_usage(tmp_path: Path, command: str, name: str):
    make_job(tmp_path, "wordcount")
    code, output = tidegate(command, name, "--dir", str(tmp_path / "wordcount"))
    assert (code, "TG-UID-INVALID" in output, len(output) < 1_000) == (2, True, True)


@pytest.mark.parametrize("command", ["checkpoint", "stop", "cancel"])
def test_what_is_asked_of_a_job_that_does_not_run_is_refused_and_leaves_nothing(tmp_path: Path, command: str):
    job = make_job(tmp_path)
    say(job, JobState.STOPPED)
    code, output = tidegate(command, "job", "--dir", str(tmp_path), "--json")
    assert (code, json.loads(output)["outcome"]) == (4, "not running")
    assert not (job / "control").exists()


@pytest.mark.parametrize(
    "cluster", [["-yid", "application_1_2"], ["-t", "yarn-application", "-Dyarn.application.id=a"]]
)
@pytest.mark.parametrize(
    "line",
    [
        ["stop", "-p", "savepoints", "0a0b0c0d"],
        ["stop", "--savepointPath", "0a0b0c0d"],
        ["cancel", "-s", "savepoints", "0a0b0c0d"],
        ["savepoint", "0a0b0c0d", "savepoints"],
    ],
)
def test_a_line_of_flinks_with_job_id_and_cluster_is_about_the_job(tmp_path: Path, line: list[str], cluster: list[str]):
    say(make_job(tmp_path, "words"), JobState.STOPPED)
    for words in ([*line, *cluster], [line[0], *cluster, *line[1:]]):
        code, output = tidegate(*words, "--dir", str(tmp_path))
        assert code == 4, output
        assert "words" in output
        assert "the job is found by its name" in output or "the job runs in no application of YARN" in output


def test_a_json_answer_stands_alone_and_the_notes_beside_it(tmp_path: Path):
    say(make_job(tmp_path, "words"), JobState.STOPPED)
    said = command.tidegate("stop", "words", "-yid", "application_1_2", "--dir", str(tmp_path), "--json")
    assert json.loads(said.stdout)["outcome"] == "not running"
    assert said.stderr == (
        "note: -yid application_1_2: the job runs in no application of YARN, and is found by its name or its id\n"
    )


@pytest.mark.parametrize("line", [["stop", "words"], ["cancel", "words"], ["savepoint", "words", "savepoints"]])
def test_a_line_with_the_application_of_another_job_is_refused(tmp_path: Path, line: list[str]):
    say(make_job(tmp_path, "words"), JobState.STOPPED, application="application_1_2")
    code, output = tidegate(*line, "-yid", "application_1_2", "--dir", str(tmp_path))
    assert (code, "note" in output) == (4, False)
    assert "spark    application_1_2\n" in tidegate("info", "words", "--dir", str(tmp_path))[1]
    code, output = tidegate(*line, "-yid", "application_1_3", "--dir", str(tmp_path))
    assert (code, "TG-JOB-UNKNOWN" in output, "job words in application_1_2" in output) == (3, True, True)


def test_a_job_that_is_starting_is_waited_for_and_nothing_is_asked_of_it_before(tmp_path: Path):
    job = make_job(tmp_path)
    with another_driver(job):
        code, output = tidegate("stop", "job", "--dir", str(tmp_path), "--timeout", "200ms", "--json")
    found = json.loads(output)
    assert (code, found["outcome"], "no request was sent" in found["detail"]) == (7, "no answer", True)
    assert not (job / "control").exists()


def test_a_driver_that_does_not_answer_leaves_the_request_standing(tmp_path: Path):
    job = make_job(tmp_path)
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + SOON)
        code, output = tidegate("stop", "job", "--dir", str(tmp_path), "--timeout", "200ms", "--id", "one")
        assert (code, f"tidegate stop job --id one --dir {tmp_path}" in output) == (7, True)
        assert (job / "control" / "requests" / "one.json").exists()
        refused, said = tidegate("cancel", "job", "--dir", str(tmp_path), "--timeout", "200ms", "--id", "one")
        assert (refused, "TG-REQUEST-REFUSED" in said) == (4, True)


def test_who_has_stopped_a_job_finds_its_supervisor_gone_too(tmp_path: Path):
    """A driver answers before it ends, and `tidegate run` ends after it: until then a new one would be refused."""
    job = make_job(tmp_path)
    supervising = take_supervisor_lock(job, "job")
    stopped: list[Answer] = []
    stopping = threading.Thread(
        target=lambda: stopped.append(answered(operate.open(tmp_path, "job").stop(id="one"))), daemon=True
    )
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + SOON)
        stopping.start()
        while not (asked := Desk(job).open_requests(time.time())):
            time.sleep(0.01)
        done = Answer(id=asked[0].id, kind=Kind.STOP, outcome=Outcome.DONE, detail="", at=time.time())
        Desk(job).answer(done)
    stopping.join(0.3)
    assert stopping.is_alive()
    supervising.release()
    stopping.join(10)
    assert stopped == [done]


def test_who_had_no_answer_is_told_how_to_ask_for_the_same_savepoint_again(tmp_path: Path):
    job, into = make_job(tmp_path), tmp_path / "my saved"
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + SOON)
        where = ["--dir", str(tmp_path), "--timeout", "200ms", "--id", "one"]
        code, output = tidegate("savepoint", "job", str(into), *where)
        assert (code, f"tidegate savepoint job '{into}' --id one" in output) == (7, True)
        assert tidegate("savepoint", "job", str(into), *where)[0] == 7
        refused, said = tidegate("savepoint", "job", *where)
        assert (refused, f"belongs to `savepoint` in {into}" in said) == (4, True)


def test_a_savepoint_that_was_taken_under_an_id_is_told_as_long_as_it_is_there(tmp_path: Path):
    """Whoever has removed it, and asks again under its id, must not take it for there."""
    job = tmp_path / "job"
    savepoint = take(write_job(job), "one", tmp_path / "saved")
    LocalStorage(job).put_if_absent(JOB_RECORD, encode(RECORD))
    done = Answer(
        id="one",
        kind=Kind.SAVEPOINT,
        outcome=Outcome.DONE,
        detail="the savepoint is whole",
        at=0.0,
        savepoint=str(savepoint.folder),
        into=str(tmp_path / "saved"),
    )
    Desk(job).answer(done)

    def again(into: str) -> Answer:
        return answered(operate.open(tmp_path, "job").savepoint(into, id="one"))

    assert again(str(tmp_path / "saved")) == done
    dispose(savepoint)
    with pytest.raises(TidegateError, match=r"TG-REQUEST-REFUSED"):
        again(str(tmp_path / "elsewhere"))
    answer = again(str(tmp_path / "saved"))
    assert (answer.outcome, answer.savepoint) == (Outcome.NOT_RUNNING, None)


def test_the_outcome_is_unknown_when_the_driver_died_and_another_one_has_started_since(tmp_path: Path):
    job = make_job(tmp_path)
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + SOON)
        tidegate("stop", "job", "--dir", str(tmp_path), "--timeout", "100ms", "--id", "one")
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + SOON)
        code, output = tidegate("stop", "job", "--dir", str(tmp_path), "--id", "one", "--json")
    assert (code, json.loads(output)["outcome"]) == (5, "unknown")


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "-r", "-a"],
        ["history", "job", "-n", "0"],
        ["stop", "job", "--timeout", "soon"],
        ["cancel", "job", "--drain"],
        ["stop"],
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str]):
    make_job(tmp_path)
    assert tidegate(*arguments, "--dir", str(tmp_path))[0] == 2


def test_an_id_that_is_no_name_is_refused(tmp_path: Path):
    job = make_job(tmp_path)
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + SOON)
        code, output = tidegate("stop", "job", "--dir", str(tmp_path), "--id", "../../one")
    assert (code, "TG-REQUEST-REFUSED" in output) == (4, True)


def test_the_list_shows_what_runs_and_what_broke_and_with_a_everything(tmp_path: Path):
    for name, state in (("gone", JobState.RUNNING), ("broken", JobState.FAILED), ("over", JobState.FINISHED)):
        say(make_job(tmp_path, name), state, error="TG-QUERY-FAILED" if state is JobState.FAILED else "")
    running = make_job(tmp_path, "running")
    with another_driver(running) as process:
        say(running, JobState.RUNNING, process=process, at=time.time() + SOON)
        shown = {flags: _listed(tmp_path, *flags) for flags in ((), ("-r",), ("-a",))}
        text = tidegate("list", "--dir", str(tmp_path))[1]
    assert shown[()] == {"gone": "DIED", "broken": "FAILED", "running": "RUNNING"}
    assert shown[("-r",)] == {"running": "RUNNING"}
    assert shown[("-a",)] == {**shown[()], "over": "FINISHED"}
    assert "3 of 4 jobs" in text
    assert "FAILED" in text


@pytest.mark.parametrize("flags", [(), ("-r",), ("-a",)])
def test_a_job_that_cannot_be_read_is_listed_with_its_error_beside_the_others(tmp_path: Path, flags: tuple[str, ...]):
    say(make_job(tmp_path, "broken"), JobState.FAILED)
    (make_job(tmp_path, "torn") / "job.json").write_bytes(b"tidegate job 1")
    code, output = tidegate("list", *flags, "--dir", str(tmp_path))
    assert (code, "torn: TG-RECORD-CORRUPT" in output, "broken" in output) == (1, True, flags != ("-r",))
    code, output = tidegate("list", *flags, "--dir", str(tmp_path), "--json")
    assert (code, [each["job"] for each in json.loads(output)["jobs"]][-1]) == (1, "torn")


@pytest.mark.parametrize("spoil", [lambda beat: beat.mkdir(), lambda beat: beat.write_bytes(b'{"job":"\xff"}')])
def test_a_job_whose_beat_cannot_be_read_is_a_line_that_says_so_beside_the_others(
    tmp_path: Path, spoil: Callable[[Path], object]
):
    spoil(make_job(tmp_path, "spoilt") / BEAT)
    say(make_job(tmp_path, "broken"), JobState.FAILED)
    said = command.tidegate("list", "--dir", str(tmp_path))
    assert said.code == 1
    assert [line.split()[0] for line in said.stdout.splitlines()[2:]] == ["broken", "spoilt"]
    (line,) = said.stderr.splitlines()
    assert line.startswith("spoilt: ")
    assert "beat.json" in line
    assert tidegate("info", "spoilt", "--dir", str(tmp_path))[0] == 0


def test_a_beat_with_a_time_that_is_none_is_listed(tmp_path: Path):
    job = make_job(tmp_path)
    beat = say(job, JobState.FAILED)
    write_beat(job, msgspec.structs.replace(beat, at=1e300, started_at=-1e300))
    code, output = tidegate("list", "--dir", str(tmp_path))
    assert (code, "FAILED" in output) == (0, True)


@pytest.mark.parametrize("command", ["stop", "cancel", "checkpoint"])
def test_a_beat_that_cannot_be_looked_at_is_named_to_who_asks(tmp_path: Path, command: str):
    job = make_job(tmp_path)
    with another_driver(job):
        (job / BEAT).mkdir()
        code, output = tidegate(command, "job", "--dir", str(tmp_path), "--timeout", "200ms")
    assert (code, "TG-STORAGE-UNUSABLE" in output, str(job / BEAT) in output) == (1, True, True)


def test_a_job_that_cannot_be_read_keeps_no_other_job_s_transactions_back(tmp_path: Path):
    (make_job(tmp_path, "a-torn") / "job.json").write_bytes(b"tidegate job 1")
    start = Start(
        job_id="0a0b0c0d",
        generation=1,
        first_epoch=0,
        sources=("in",),
        sinks=("table",),
        positions={"in": "logged by Spark"},
    )
    ledger = make_job(tmp_path, "words") / "queries" / "query" / "g1" / "ledger"
    ledger.mkdir(parents=True)
    (ledger / "start").write_bytes(encode(start))
    code, output = tidegate("txn", "ls", "--dir", str(tmp_path), "--json")
    problems = {each["code"]: each["where"] for each in json.loads(output)["problems"]}
    assert code == 1
    assert "a-torn" in problems["TG-RECORD-CORRUPT"]
    assert "query query, sink table" in problems["TG-SINK-OUT-OF-REACH"]  # the other job was looked at


def test_a_generation_that_has_not_begun_hides_none_that_has(tmp_path: Path):
    query = make_job(tmp_path) / "queries" / "query"
    (query / "g1" / "ledger" / "done").mkdir(parents=True)
    start = Start(
        job_id="0a0b0c0d",
        generation=1,
        first_epoch=0,
        sources=("in",),
        sinks=("table",),
        positions={"in": "logged by Spark"},
    )
    (query / "g1" / "ledger" / "start").write_bytes(encode(start))
    (query / "g1" / "ledger" / "done" / "4").touch()
    (query / "g2").mkdir()
    (query / "g-no-generation").mkdir()
    (found,) = json.loads(tidegate("info", "job", "--dir", str(tmp_path), "--json")[1])["queries"]
    assert (found["generation"], found["sinks"], found["finished"]) == (1, ["table"], 4)


def test_info_shows_what_a_reader_of_each_sink_can_count_on(tmp_path: Path):
    job = make_job(tmp_path)
    say(job, JobState.RUNNING)
    found = guarantee_of("counts", "screen", {"lines": Rows.REPLAYED}, Level.EXACTLY_ONCE, Shows.AGAIN)
    assert found
    write_guarantees(LocalStorage(job), [found])
    shown = tidegate("info", "job", "--dir", str(tmp_path))[1]
    assert "counts/screen  at-least-once  sink (screen)" in shown
    (told,) = json.loads(tidegate("info", "job", "--dir", str(tmp_path), "--json")[1])["guarantees"]
    assert (told["sink"], told["level"], told["limited_by"], told["where"]) == (
        "screen",
        "at-least-once",
        "sink",
        "screen",
    )


def test_info_shows_how_each_query_took_part_in_the_newest_checkpoint(tmp_path: Path):
    job = make_job(tmp_path)
    record = CheckpointRecord(
        number=7,
        job="job",
        job_id="0a0b0c0d",
        at="2026-01-02T03:04:05+00:00",
        queries=(),
        held_in="5f0c",
        alignment="unaligned",
        taken={"count": TakenPart(after_ms=120, aligned_ms=90, rows_in_flight=41)},
    )
    LocalStorage(job).replace("checkpoints/7/_metadata.json", encode(record))
    shown = tidegate("info", "job", "--dir", str(tmp_path))[1]
    assert "checkpoint 7, unaligned, at 2026-01-02T03:04:05+00:00" in shown
    assert "rows in flight" in shown
    told = json.loads(tidegate("info", "job", "--dir", str(tmp_path), "--json")[1])["barriers"]
    assert (told["number"], told["taken"]["count"]["rows_in_flight"]) == (7, 41)


def test_a_folder_without_jobs_is_said_to_have_none(tmp_path: Path):
    code, output = tidegate("list", "--dir", str(tmp_path))
    assert (code, "0 of 0 jobs in" in output) == (0, True)


def test_the_folder_of_the_settings_is_searched_when_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    say(make_job(tmp_path), JobState.STOPPED)
    monkeypatch.setenv("TIDEGATE_CHECKPOINTING_DIR", str(tmp_path))
    assert json.loads(tidegate("list", "-a", "--json")[1])["folder"] == str(tmp_path)


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_what_an_output_cannot_show_is_written_in_another_way(tmp_path: Path, encoding: str):
    """In a terminal of another age; and the name of a folder may be no text at all."""
    root = os.fsencode(tmp_path) + b"/s\xc3\xbc\xdf"
    say(make_job(Path(os.fsdecode(root)), "job"), JobState.FAILED, error="süß")
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    for words, shown in ([b"info", b"job"], b"job: FAILED"), ([b"list", b"--json"], b'"job":"job"'):
        line = [sys.executable, "-m", "tidegate.cli.main", *words, b"--dir", root]
        done = subprocess.run(line, env=environment, capture_output=True)
        assert (done.returncode, shown in done.stdout) == (0, True), done.stderr
    assert json.loads(done.stdout)["jobs"][0]["error"] == "süß"


def test_where_no_epoch_is_done_yet_a_dash_stands(tmp_path: Path):
    job = make_job(tmp_path)
    beat = say(job, JobState.FAILED)
    write_beat(
        job, msgspec.structs.replace(beat, queries=(msgspec.structs.replace(beat.queries[0], epoch=-1, finished=-1),))
    )
    for words in (["list"], ["info", "job"]):
        code, output = tidegate(*words, "--dir", str(tmp_path))
        assert (code, " -1" in output) == (0, False), output
    assert "query -  " in tidegate("list", "--dir", str(tmp_path))[1]


def test_the_info_names_the_error_that_ended_a_job(tmp_path: Path):
    say(make_job(tmp_path), JobState.FAILED, error="TG-QUERY-FAILED: job job, query query: it broke")
    code, output = tidegate("info", "job", "--dir", str(tmp_path))
    assert (code, "FAILED" in output, "it broke" in output) == (0, True, True)


def test_the_history_is_shown_newest_first(tmp_path: Path):
    job = make_job(tmp_path)
    assert "no checkpoint" in tidegate("history", "job", "--dir", str(tmp_path))[1]
    CheckpointsHistory(job).add(
        [DoneCheckpoint(query="query", epoch=n, run=1, at=1.7e9, duration_ms=12.5, rows=n) for n in range(30)]
    )
    output = tidegate("history", "job", "-n", "3", "--dir", str(tmp_path), "--json")[1]
    assert [each["epoch"] for each in json.loads(output)["checkpoints"]] == [29, 28, 27]
    assert "12.5" in tidegate("history", "job", "--dir", str(tmp_path))[1]


def test_a_history_that_may_not_be_looked_at_is_an_error_of_ours(tmp_path: Path):
    job = make_job(tmp_path)
    CheckpointsHistory(job).add([DoneCheckpoint(query="query", epoch=0, run=1, at=1.7e9, duration_ms=None, rows=1)])
    for shut in (job / "history" / "checkpoints" / "1.jsonl", job / "history" / "checkpoints"):
        shut.chmod(0)
        with modes_count():
            code, output = tidegate("history", "job", "--dir", str(tmp_path))
        shut.chmod(0o755)
        assert (code, "TG-STORAGE-UNUSABLE" in output, str(shut) in output) == (1, True, True)


def test_the_history_tells_what_a_job_failed_with(tmp_path: Path):
    failure = Failure(
        at=1.7e9, code="TG-DRIVER-DIED", what="it ended", where="job job", remedy="start again", restart_in_seconds=1.5
    )
    add_failure(make_job(tmp_path), failure)
    output = tidegate("history", "job", "--dir", str(tmp_path), "--json")[1]
    assert [each["code"] for each in json.loads(output)["failures"]] == ["TG-DRIVER-DIED"]
    shown = tidegate("history", "job", "--dir", str(tmp_path))[1]
    assert "TG-DRIVER-DIED" in shown
    assert "1.5 s" in shown


@pytest.mark.parametrize("command", ["list", *COMMANDS])
def test_every_command_has_help_with_an_example(command: str):
    code, output = tidegate(command, "--help")
    assert (code, f"tidegate {command}" in output, "--json" in output) == (0, True, True)


@pytest.mark.parametrize(
    ("typed", "found"),
    [("tidegate info w", ["words"]), ("tidegate sto", ["stop"]), ("tidegate txn com", ["commit"])],
)
def test_the_shell_completes_the_names_of_jobs_and_commands(tmp_path: Path, typed: str, found: list[str]):
    for name in ("words", "sensors"):
        make_job(tmp_path, name)
    environment = {
        **os.environ,
        "TIDEGATE_CHECKPOINTING_DIR": str(tmp_path),
        "_TIDEGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }
    program = [sys.executable, "-c", "import sys; sys.argv[0] = 'tidegate'; from tidegate.cli.main import app; app()"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == found, done.stderr


def test_the_list_costs_little_more_than_a_command_that_does_nothing_and_loads_no_spark(tmp_path: Path):
    """Counted in calls of Python, imports included: seconds say more about the machine."""
    for number in range(20):
        say(make_job(tmp_path, f"job-{number}"), JobState.FINISHED)
    listing = f"sys.argv = ['tidegate', 'list', '-a', '--dir', {str(tmp_path)!r}]\nfrom tidegate.cli.main import app"
    nothing = "sys.argv = ['nothing', '--flag']\nimport typer\napp = typer.Typer()\n@app.command()\n"
    nothing += "def nothing(flag: bool = False): print('FINISHED')"
    _calls_of(listing, 20)  # the first command of a checkout compiles what it imports
    assert _calls_of(listing, 20) < 2.5 * _calls_of(nothing, 1)


def _calls_of(program: str, finished: int) -> int:
    whole = (
        "import sys, atexit\ncalls = 0\n"
        "def count(frame, event, argument):\n    global calls\n    calls += event == 'call'\n"
        "heavy = ('pyspark', 'py4j', 'pyarrow', 'pandas', 'numpy', 'confluent_kafka')\n"
        "tell = lambda: print(calls, *(n for n in sys.modules if n.partition('.')[0] in heavy), file=sys.stderr)\n"
        f"atexit.register(tell)\nsys.setprofile(count)\n{program}\napp()"
    )
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    calls, *heavy = done.stderr.split()
    assert heavy == []
    assert done.stdout.count("FINISHED") == finished
    return int(calls)


def _listed(folder: Path, *flags: str) -> dict[str, str]:
    output = tidegate("list", *flags, "--dir", str(folder), "--json")[1]
    return {each["job"]: each["state"] for each in json.loads(output)["jobs"]}
