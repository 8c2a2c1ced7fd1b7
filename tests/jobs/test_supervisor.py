"""`tidegate run` as processes: what it starts, ends, starts again and leaves alone. The programs here need no Spark."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.jobs.folders import tidegate
from tests.jobs.under_run import UnderRun, in_session, wait_until
from tests.support.today import turn
from tidegate.operate.control import Desk, Outcome
from tidegate.operate.supervisor_lock import supervisor_of

COUNT = """
import os, signal, subprocess, sys, time
from pathlib import Path
here = Path(sys.argv[1])
with open(here / "starts", "a") as file:
    print(os.getpid(), file=file)
first = len((here / "starts").read_text().split()) == 1
"""
"""How each of these programs begins: it notes its start."""

KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
NOTED = 'print(time.time(), file=open(here / "times", "a"), flush=True)'

DECLARING = """
folder = here / "checkpoints" / "numbers"
def declare(own_jvm=False):
    from tidegate.settings.found import load_settings
    from tidegate.spark.supervised import current
    supervised = current()
    supervised.define("numbers")
    supervised.declare(folder, load_settings({}), own_jvm=own_jvm)
    return supervised
"""
"""What a job says before it starts, without Spark."""

HOLDING = f"""{DECLARING}
declare()
(here / "holds").touch()
time.sleep(600)
"""
"""As a job that has begun to start, and does not get on."""

AT_ONCE = ["-D", "restart.strategy=fixed-delay", "-D", "restart.fixed_delay.delay=0"]


PAUSES = ("exponential.initial=500ms", "exponential.multiplier=4", "exponential.jitter=0")


def run(folder: Path, program: str, *options: str, arguments: tuple[str, ...] = ()) -> UnderRun:
    file = folder / "program.py"
    file.write_text(COUNT + program)
    return UnderRun(folder, *arguments, program=file, options=options)


def strategy_options(strategy: str, *parameters: str) -> list[str]:
    """The options that choose a strategy, with its parameters."""
    given = [f"restart.strategy={strategy}", *(f"restart.{each}" for each in parameters)]
    return [word for each in given for word in ("-D", each)]


def starts(folder: Path) -> list[int]:
    """The processes that were started, in order."""
    noted = folder / "starts"
    return [int(line) for line in noted.read_text().split()] if noted.exists() else []


@pytest.mark.parametrize(
    ("options", "expected"),
    [(["-D", "restart.strategy=none"], 1), ([*AT_ONCE, "-D", "restart.fixed_delay.attempts=2"], 3)],
)
def test_a_driver_that_dies_is_started_as_often_as_the_strategy_says(tmp_path: Path, options: list[str], expected: int):
    with run(tmp_path, KILLED, *options) as killed:
        assert killed.wait() == 1
        assert len(starts(tmp_path)) == expected
        assert "TG-DRIVER-DIED" in killed.tail()
        assert "SIGKILL" in killed.tail()


@turn(1, of=3)
@pytest.mark.parametrize(
    ("options", "pauses"),
    [
        (("fixed-delay", "fixed_delay.attempts=2", "fixed_delay.delay=1s"), [1.0, 1.0]),
        (("failure-rate", "failure_rate.max_failures=2", "failure_rate.delay=1s"), [1.0, 1.0]),
        (("exponential-delay", *PAUSES, "exponential.max=1s", "exponential.attempts=3"), [0.5, 1.0, 1.0]),
    ],
)
def test_a_driver_that_dies_is_started_after_the_pauses_of_the_strategy(
    tmp_path: Path, options: tuple[str, ...], pauses: list[float]
):
    with run(tmp_path, f"{NOTED}\n{KILLED}", *strategy_options(*options)) as killed:
        assert killed.wait() == 1
        times = [float(line) for line in (tmp_path / "times").read_text().split()]
    assert len(times) == len(pauses) + 1
    assert all(later - earlier >= pause for earlier, later, pause in zip(times, times[1:], pauses, strict=False))


@pytest.mark.parametrize(
    "options",
    [
        ("failure-rate", "failure_rate.max_failures=1", "failure_rate.interval=10ms", "failure_rate.delay=100ms"),
        ("exponential-delay", "exponential.initial=100ms", "exponential.attempts=1", "exponential.reset=10ms"),
    ],
    ids=["failure_rate.interval", "exponential.reset"],
)
def test_failures_that_lie_so_far_apart_as_is_set_are_not_counted_together(tmp_path: Path, options: tuple[str, ...]):
    """With the defaults, a minute and an hour, the second failure would be the last."""
    third = 'if len((here / "starts").read_text().split()) == 3:\n    sys.exit(9)\n'
    with run(tmp_path, third + KILLED, *strategy_options(*options)) as killed:
        assert killed.wait() == 9


def test_a_pause_is_longer_or_shorter_by_the_part_that_jitter_says(tmp_path: Path):
    given = ("exponential.initial=200ms", "exponential.multiplier=1", "exponential.attempts=3")
    options = strategy_options("exponential-delay", *given, "exponential.jitter=0.5")
    with run(tmp_path, f"{DECLARING}declare()\n{NOTED}\n{KILLED}", *options) as killed:
        assert killed.wait() == 1
        pauses = [failure.restart_in_seconds or 0.0 for failure in reversed(killed.failures())][:3]
    assert all(0.1 <= pause <= 0.3 for pause in pauses)
    assert len(set(pauses)) == 3
    times = [float(line) for line in (tmp_path / "times").read_text().split()]
    assert all(later - earlier >= pause for earlier, later, pause in zip(times, times[1:], pauses, strict=False))


def test_the_next_driver_starts_its_jvm_in_the_pause_and_the_program_begins_when_nothing_of_the_last_one_is_left(
    tmp_path: Path,
):
    looked = """
if not first:
    from tidegate.spark import early_jvm
    found = (early_jvm._early is not None, "TIDEGATE_HEAD_START" in os.environ)
    (here / "found").write_text(f"{time.time()} {found}")
    sys.exit(0)
subprocess.Popen(["sleep", "2"])
(here / "died").write_text(str(time.time()))
"""
    options = ["-D", "restart.strategy=fixed-delay", "-D", "restart.fixed_delay.delay=100ms"]
    with run(tmp_path, f"{looked}{DECLARING}declare(own_jvm=True)\n{KILLED}", *options) as killed:
        assert killed.wait() == 0
    at, _, found = (tmp_path / "found").read_text().partition(" ")
    assert float(at) - float((tmp_path / "died").read_text()) >= 1.9, "the sleep of the last one was waited for"
    assert found == "(True, False)"


def test_the_end_of_what_a_dead_driver_has_left_behind_is_part_of_the_pause(tmp_path: Path):
    """As a JVM, which outlives its driver for a moment."""
    program = """
if not first:
    (here / "again").write_text(str(time.time()))
    sys.exit(0)
subprocess.Popen(["sleep", "1.5"])
(here / "died").write_text(str(time.time()))
os.kill(os.getpid(), signal.SIGKILL)
"""
    options = ["-D", "restart.strategy=fixed-delay", "-D", "restart.fixed_delay.delay=2s"]
    with run(tmp_path, program, *options) as left:
        left.wait()
    pause = float((tmp_path / "again").read_text()) - float((tmp_path / "died").read_text())
    assert 2.0 <= pause < 3.5, "one after the other they take as long"


ENDED = f"""{DECLARING}
from tidegate.operate.beat import Beat, JobState, write_beat
supervised = declare()
told = dict(job="numbers", job_id="0123abcd", host="here", process=os.getpid(), started_at=1.0, at=1.0, progress_at=1.0)
write_beat(folder, Beat(state=JobState.STOPPED, **told))
from tidegate.supervise.line import Finished, Running
supervised._say(Running("0123abcd"))
"""
"""As a job that somebody has stopped, from another terminal."""


def test_a_job_that_was_stopped_is_not_started_again_although_its_driver_dies(tmp_path: Path):
    with run(tmp_path, ENDED + KILLED, *AT_ONCE, "-D", "restart.fixed_delay.attempts=3") as stopped:
        assert stopped.wait() == 1
        assert len(starts(tmp_path)) == 1


def test_a_program_may_go_on_after_its_job_for_as_long_as_it_likes(tmp_path: Path):
    program = f"{ENDED}time.sleep(4)\nsupervised._say(Finished(report=None, job_ended=True))\nos._exit(0)\n"
    with run(tmp_path, program, *AT_ONCE, "-D", "progress_timeout=1s") as working:
        assert working.wait() == 0
        assert len(starts(tmp_path)) == 1


def test_a_stop_from_elsewhere_while_a_sink_is_down_is_no_reason_to_start_again(tmp_path: Path):
    report = """
from tidegate.core.errors import Code, TidegateError
from tidegate.operate.reports import report_of
error = TidegateError(Code.SINK_UNAVAILABLE, expected="a sink", found="none", where="sink", next_step="mend it")
supervised._say(Finished(report=report_of(error), job_ended=True))
os._exit(1)
"""
    with run(tmp_path, ENDED + report, *AT_ONCE, "-D", "restart.fixed_delay.attempts=3") as stopped:
        assert stopped.wait() == 6
        assert len(starts(tmp_path)) == 1


@pytest.mark.parametrize("code", ["RESTORE_OPERATORS", "RESTORE_PARTITIONS", "SOURCES_CHANGED", "STATE_FORMAT"])
def test_a_program_that_does_not_fit_what_its_job_goes_on_from_is_refused(tmp_path: Path, code: str):
    """As `tidegate savepoint check` does, which ends with the same code."""
    with run(tmp_path, FAILS_TO_START.replace("KAFKA_UNREACHABLE", code), *AT_ONCE) as refused:
        assert refused.wait() == 4
        assert len(starts(tmp_path)) == 1


def test_with_json_every_line_is_an_object_whoever_writes_it(tmp_path: Path):
    program = """
if not first:
    raise ValueError("password=quite-secret")
os.kill(os.getpid(), signal.SIGKILL)
"""
    options = [*AT_ONCE, "-D", "restart.fixed_delay.attempts=1", "--log-format", "json", "--log-level", "info"]
    with run(tmp_path, program, *options) as failing:
        assert failing.wait() == 1
        lines = [json.loads(line) for line in failing.tail().splitlines()]
    assert [line["event"] for line in lines if line["event"]] == ["DriverFailed", "Failed", "DriverFailed"]
    assert "quite-secret" not in json.dumps(lines)


def test_what_a_dead_driver_has_left_behind_is_ended_before_the_next_one_starts(tmp_path: Path):
    """As a Python worker of Spark's that is busy: it has a process group of its own, and nobody ends it."""
    program = """
if first:
    left = subprocess.Popen(["sleep", "600"], preexec_fn=os.setpgrp)
    (here / "left").write_text(str(left.pid))
    os.kill(os.getpid(), signal.SIGKILL)
state = subprocess.run(["ps", "-p", (here / "left").read_text(), "-o", "stat="], capture_output=True, text=True)
sys.exit(8 if state.stdout.strip()[:1] in ("", "Z") else 7)
"""
    with run(tmp_path, program, *AT_ONCE) as left:
        assert left.wait() == 8, "the program's own exit code says that it was still there"
        assert [in_session(session) for session in starts(tmp_path)] == [[], []]


def test_a_driver_that_stands_still_is_ended_and_started_again(tmp_path: Path):
    program = """
if not first:
    sys.exit(9)
from tidegate.operate.beat import Beat, JobState, write_beat
from tidegate.supervise.line import Running
now, me = time.time(), os.getpid()
supervised = declare()
write_beat(folder, Beat(job="numbers", job_id="", state=JobState.RUNNING, host="here", process=me, started_at=now,
                        at=now, progress_at=now))
(folder / "job.json").touch()
supervised._say(Running("0123abcd"))
os.kill(me, signal.SIGSTOP)
"""
    with run(tmp_path, DECLARING + program, *AT_ONCE, "-D", "progress_timeout=2s") as stalled:
        assert stalled.wait() == 9
        assert len(starts(tmp_path)) == 2
        assert [failure.code for failure in stalled.failures()] == ["TG-DRIVER-STALLED"]


def test_a_failed_epoch_that_is_tolerated_is_no_failure_for_the_restart_strategy(tmp_path: Path):
    """Each driver goes on with the count of the one before. The one that is not tolerated asks the strategy, and the
    driver after it counts anew."""
    program = """
from tidegate.core.errors import Code, TidegateError
from tidegate.supervise.line import Finished
from tidegate.operate.reports import report_of
supervised = declare()
in_a_row = supervised.failed_epochs.get("counts", 0) + 1
print(in_a_row, file=open(here / "counts", "a"), flush=True)
error = TidegateError(Code.EPOCH_TIMEOUT, expected="an end", found="none", where="it", next_step="start again")
failed = {"counts": in_a_row} if in_a_row <= 2 else {}
supervised._say(Finished(report=report_of(error), failed_epochs=failed))
os._exit(1)
"""
    with run(tmp_path, DECLARING + program, *AT_ONCE, "-D", "restart.fixed_delay.attempts=1") as failing:
        assert failing.wait() == 1
        pauses = [failure.restart_in_seconds for failure in reversed(failing.failures())]
    assert (tmp_path / "counts").read_text().split() == ["1", "2", "3", "1", "2", "3"]
    assert pauses == [0.0, 0.0, 0.0, 0.0, 0.0, None]


@turn(0, of=2)
@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        (None, "TG-PROGRAM-UNREADABLE", "No such file"),
        ("def", "TG-PROGRAM-UNREADABLE", "invalid syntax"),
        ("job = '\0'", "TG-PROGRAM-UNREADABLE", "null bytes"),
        ("pass", "TG-JOB-COUNT", "none"),
        ("from tidegate import Job\nJob('a')", "TG-JOB-COUNT", "job a, which was not started"),
        ("from tidegate import Job\nJob('a')\nJob('b')", "TG-JOB-COUNT", "two: a and b"),
    ],
)
def test_a_program_that_is_no_job_is_not_started_again(tmp_path: Path, program: str | None, code: str, said: str):
    with run(tmp_path, program or "") as wrong:
        if program is None:
            (tmp_path / "program.py").unlink()
        assert wrong.wait() == 2
        assert code in wrong.tail()
        assert said in wrong.tail()
        assert len(starts(tmp_path)) <= 1
        assert "Traceback" not in wrong.tail()


def test_a_name_that_is_none_is_refused_before_anything_has_it(tmp_path: Path):
    program = """
from tidegate import Job, TidegateError
for name in ("../words", "..", "/etc", "nul\\0", "x" * 10_000):
    try:
        Job(name)
    except TidegateError as error:
        print("refused", error.code, len(str(error)) < 1_000, flush=True)
Job("../words")
"""
    with run(tmp_path, program, *AT_ONCE) as wrong:
        assert wrong.wait() == 1
        assert wrong.tail().count("refused TG-UID-INVALID True") == 5
        assert "'../words'" in wrong.tail()
        assert len(starts(tmp_path)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "program.py", "starts"]


def test_a_storage_that_cannot_be_written_ends_a_first_start_with_its_error(tmp_path: Path):
    """Here a file stands in the place of its folder."""
    (tmp_path / "checkpoints").touch()
    with run(tmp_path, HOLDING, *AT_ONCE) as refused:
        assert refused.wait() == 1
        assert "TG-STORAGE-UNUSABLE" in refused.tail()
        assert "Traceback" not in refused.tail()
        assert len(starts(tmp_path)) == 1


def test_a_programs_own_error_before_its_job_has_run_is_a_mistake(tmp_path: Path):
    with run(tmp_path, "raise LookupError('no such thing')", *AT_ONCE) as wrong:
        assert wrong.wait() == 1
        assert len(starts(tmp_path)) == 1
    shown = wrong.tail()
    assert "Traceback (most recent call last)" in shown
    assert "LookupError: no such thing" in shown
    assert "TG-PROGRAM-FAILED" in shown
    assert "spark/program.py" not in shown


def test_what_follows_the_program_is_the_programs_and_settings_reach_its_job(tmp_path: Path):
    program = """
from tidegate import Job
settings = Job("a", checkpointing_interval="9s").settings
print(sys.argv[2:], settings.checkpointing_interval, settings.stop_timeout, __name__, sys.path[0] == str(here))
sys.exit(0)
"""
    options = ["-D", "checkpointing.interval=2s", "-Dstop_timeout=3s"]
    with run(tmp_path, program, *options, arguments=("-D", "x=y", "--json", "-p", "3")) as passed:
        assert passed.wait() == 0
        assert "['-D', 'x=y', '--json', '-p', '3'] 2.0 3.0 __main__ True" in passed.tail()


def test_a_stop_before_the_job_runs_ends_the_program(tmp_path: Path):
    with run(tmp_path, HOLDING) as stopped:
        wait_until((tmp_path / "holds").exists, "the job's start", stopped)
        stopped.process.send_signal(signal.SIGTERM)
        assert stopped.wait(20) == 0
        assert in_session(starts(tmp_path)[0]) == []


def test_a_second_interrupt_ends_a_program_that_does_not_want_to(tmp_path: Path):
    program = """
(here / "holds").touch()
while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        (here / "asked").touch()
"""
    with run(tmp_path, program) as stubborn:
        wait_until((tmp_path / "holds").exists, "the program", stubborn)
        stubborn.process.send_signal(signal.SIGINT)
        wait_until((tmp_path / "asked").exists, "the first interrupt", stubborn)
        stubborn.process.send_signal(signal.SIGINT)
        assert stubborn.wait(20) == 130
        assert in_session(starts(tmp_path)[0]) == []


def test_a_stop_during_a_pause_is_obeyed_at_once(tmp_path: Path):
    options = ["-D", "restart.strategy=fixed-delay", "-D", "restart.fixed_delay.delay=1h"]
    with run(tmp_path, KILLED, *options) as pausing:
        wait_until(lambda: "restart of the driver in 3600.0 s" in pausing.tail(), "the pause", pausing)
        pausing.process.send_signal(signal.SIGTERM)
        assert pausing.wait(20) == 0
        assert len(starts(tmp_path)) == 1


FAILS_TO_START = f"""{DECLARING}
from tidegate.core.errors import Code, TidegateError
from tidegate.supervise.line import Finished
from tidegate.operate.reports import report_of
error = TidegateError(Code.KAFKA_UNREACHABLE, expected="a broker", found="none", where="sink", next_step="start it")
declare()._say(Finished(report=report_of(error)))
os._exit(1)
"""
"""As a job whose broker is down: it never comes to its first beat."""


def ask(folder: Path, command: str, *options: str) -> tuple[int, dict[str, str]]:
    """Ask the job, from another process than those of the job; the exit code, and what is said."""
    code, output = tidegate(command, "numbers", "--dir", str(folder / "checkpoints"), "--json", *options)
    return code, json.loads(output)


@pytest.mark.parametrize("command", ["stop", "cancel"])
def test_a_job_that_fails_before_its_first_beat_in_every_start_is_ended_by_command(tmp_path: Path, command: str):
    options = ["-D", "restart.strategy=fixed-delay", "-D", "restart.fixed_delay.delay=1h"]
    with run(tmp_path, FAILS_TO_START, *options) as failing:
        wait_until(lambda: "restart of the driver in 3600.0 s" in failing.tail(), "the pause", failing)
        code, said = ask(tmp_path, command, "--id", "the-end")
        assert (code, said["outcome"]) == (0, "done")
        assert failing.wait(20) == 0
        assert len(starts(tmp_path)) == 1
    assert tidegate(command, "numbers", "--dir", str(tmp_path / "checkpoints"))[0] == 3, "no such job was ever begun"


def test_between_two_starts_the_supervisor_hears_within_a_moment(tmp_path: Path):
    """Of a job that never rests for long: there is no pause that one could hit."""
    with run(tmp_path, FAILS_TO_START, *AT_ONCE, "-D", "restart.fixed_delay.attempts=1000") as failing:
        wait_until(lambda: len(starts(tmp_path)) > 1, "a restart", failing)
        asked_at = time.monotonic()
        assert ask(tmp_path, "stop")[1]["outcome"] == "done"
        assert failing.wait(20) in (0, 1), "stopped in the pause; or in a start, which then failed"
        assert time.monotonic() - asked_at < 20


@pytest.mark.parametrize("command", ["stop", "cancel"])
def test_a_start_that_gets_nowhere_is_ended_by_command(tmp_path: Path, command: str):
    with run(tmp_path, HOLDING) as starting:
        wait_until((tmp_path / "holds").exists, "the job's start", starting)
        code, said = ask(tmp_path, command)
        assert (code, said["outcome"]) == (0, "done")
        assert starting.wait(20) == 0
        assert in_session(starts(tmp_path)[0]) == []


STUBBORN = f"""{DECLARING}
declare()
while True:
    try:
        (here / "holds").touch()
        time.sleep(600)
    except KeyboardInterrupt:
        (here / "asked").touch()
"""
"""As a start that waits where nothing interrupts it."""


@pytest.mark.more
def test_a_cancel_cuts_short_the_stop_of_a_start_that_does_not_end(tmp_path: Path):
    with run(tmp_path, STUBBORN) as starting:
        wait_until((tmp_path / "holds").exists, "the job's start", starting)
        assert ask(tmp_path, "stop", "--id", "one", "--timeout", "200ms")[0] == 7
        wait_until((tmp_path / "asked").exists, "the stop", starting)
        code, said = ask(tmp_path, "cancel")
        assert (code, said["outcome"]) == (0, "done")
        assert starting.wait(20) == 1, "its driver had to be killed"
    stopped = Desk(tmp_path / "checkpoints" / "numbers").answer_to("one")
    assert stopped is not None
    assert stopped.outcome is Outcome.DONE


def test_who_needs_a_driver_is_told_in_whose_hands_the_job_is(tmp_path: Path):
    with run(tmp_path, HOLDING) as starting:
        wait_until((tmp_path / "holds").exists, "the job's start", starting)
        code, said = ask(tmp_path, "checkpoint", "--timeout", "200ms")
        assert (code, said["outcome"]) == (7, "no answer")
        assert f"its supervisor is process {starting.process.pid} on" in said["detail"]
        assert "no request was sent" in said["detail"]
        assert not (tmp_path / "checkpoints" / "numbers" / "control").exists()


def test_what_was_asked_of_a_supervisor_that_was_killed_is_no_request_to_the_next_one(tmp_path: Path):
    with run(tmp_path, HOLDING) as killed:
        wait_until((tmp_path / "holds").exists, "the job's start", killed)
        (driver,) = starts(tmp_path)
        os.kill(killed.process.pid, signal.SIGSTOP)
        code, said = ask(tmp_path, "stop", "--id", "one", "--timeout", "200ms")
        assert (code, "request one was sent" in said["detail"]) == (7, True)
        os.kill(killed.process.pid, signal.SIGKILL)
        killed.process.wait()
        with suppress(ProcessLookupError):
            os.kill(driver, signal.SIGKILL)
    (tmp_path / "holds").unlink()
    with run(tmp_path, HOLDING) as next_one:
        wait_until((tmp_path / "holds").exists, "the next one's start", next_one)
        code, said = ask(tmp_path, "stop", "--id", "one")
        assert (code, said["outcome"]) == (4, "too late")
        assert next_one.process.poll() is None


def test_a_job_has_one_supervisor(tmp_path: Path):
    with run(tmp_path, HOLDING) as first:
        wait_until((tmp_path / "holds").exists, "the first one's job", first)
        with run(tmp_path, HOLDING) as second:
            assert second.wait() == 4
            assert "TG-SUPERVISOR-ALIVE" in second.tail()
            assert f"process {first.process.pid} on" in second.tail()
            assert "`tidegate stop numbers`" in second.tail()
        assert first.process.poll() is None


def test_a_second_run_in_the_background_is_refused_in_words_of_its_own(tmp_path: Path):
    """What Spark has said before that stands in the log."""
    with run(tmp_path, HOLDING) as first:
        wait_until((tmp_path / "holds").exists, "the first one's job", first)
        with run(tmp_path, f"print('WARN Utils', flush=True)\n{HOLDING}", "-d", "--log-file", "my.log") as second:
            assert second.wait() == 4
            assert "TG-SUPERVISOR-ALIVE" in second.tail()
            assert "WARN Utils" not in second.tail()
            assert "log my.log" in second.tail()
        assert "WARN Utils" in (tmp_path / "my.log").read_text()
        assert first.process.poll() is None


@pytest.mark.more
def test_a_program_whose_supervisor_is_killed_ends_although_it_does_not_want_to(tmp_path: Path):
    program = """
(here / "holds").touch()
subprocess.Popen(["sleep", "600"])
while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        pass
"""
    with run(tmp_path, program) as orphaned:
        wait_until((tmp_path / "holds").exists, "the program", orphaned)
        orphaned.process.kill()
        killed_at = time.monotonic()
        (session,) = starts(tmp_path)
        while in_session(session) and time.monotonic() < killed_at + 60:
            time.sleep(0.05)
        assert time.monotonic() - killed_at < 12  # eight seconds for a clean end, the rest for a busy machine


def test_a_run_in_the_background_says_what_becomes_of_it(tmp_path: Path):
    """It returns when the job runs, or at its first failure; here that is followed by a long pause."""
    options = ["-d", "--json", "--log-file", "my.log", "-D", "restart.strategy=fixed-delay"]
    with run(tmp_path, KILLED, *options, "-D", "restart.fixed_delay.delay=1h") as background:
        assert background.wait() == 0
        said = json.loads(background.tail().splitlines()[-1])
        assert (said["job"], said["exit"], said["log"]) == (None, None, "my.log")
        assert "TG-DRIVER-DIED" in said["text"]
        assert "restart of the driver in 3600.0 s" in (tmp_path / "my.log").read_text()
        assert os.getsid(said["process"]) == said["process"]
        os.kill(said["process"], signal.SIGTERM)
        end = time.monotonic() + 20
        while in_session(said["process"]) and time.monotonic() < end:
            time.sleep(0.05)
        assert in_session(said["process"]) == []


def test_a_run_in_the_background_that_fails_at_once_fails(tmp_path: Path):
    with run(tmp_path, "raise LookupError('no such thing')", "-d") as background:
        assert background.wait() == 1
        assert "LookupError: no such thing" in background.tail()


def test_a_run_in_the_background_that_is_killed_before_it_has_said_anything_has_failed(tmp_path: Path):
    """Its log has gone into the job's folder by then."""
    with run(tmp_path, f"{HOLDING}\n", "-d") as background:
        wait_until((tmp_path / "holds").exists, "the job's start", background)
        (supervisor,) = supervisors_of(tmp_path)
        os.kill(supervisor, signal.SIGKILL)
        assert background.wait(20) == 1
        assert f"the supervisor (process {supervisor}) has ended without a message" in background.tail()
        assert "Traceback" not in background.tail()
        for driver in starts(tmp_path):
            with suppress(ProcessLookupError):
                os.kill(driver, signal.SIGKILL)


def supervisors_of(folder: Path) -> list[int]:
    supervisor = supervisor_of(folder / "checkpoints" / "numbers")
    return [] if supervisor is None else [supervisor.process]


@pytest.mark.parametrize("log", ["a-folder", "a-file/my.log"])
def test_a_log_that_cannot_be_opened_is_told_before_anything_is_started(tmp_path: Path, log: str):
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "a-file").touch()
    with run(tmp_path, "", "-d", "--log-file", log) as refused:
        assert refused.wait() == 1
        assert ("TG-STORAGE-UNUSABLE" in refused.tail(), log in refused.tail()) == (True, True)
        assert "Traceback" not in refused.tail()
        assert starts(tmp_path) == []
