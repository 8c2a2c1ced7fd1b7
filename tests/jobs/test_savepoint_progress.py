"""What is seen of a savepoint while it is copied: in a terminal how far it is, elsewhere nothing."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.jobs.folders import another_driver, make_job, say
from tidegate.operate.beat import JobState
from tidegate.operate.control import Answer, Desk, Kind, Outcome
from tidegate.operate.copy_progress import CopyProgress, write_progress

SOON = 1.0
BOUND_SECONDS = 60.0


def copy(job: Path, shown: threading.Event) -> None:
    """What the job's driver does: it says how far it is, and answers when that was seen."""
    desk, end = Desk(job), time.monotonic() + BOUND_SECONDS
    while not desk.open_requests(time.time()):
        assert time.monotonic() < end, "nobody has asked"
        time.sleep(0.01)
    write_progress(job, "one", CopyProgress(copied_bytes=1_500_000, total_bytes=2_000_000_000))
    assert shown.wait(BOUND_SECONDS)
    answer = Answer(id="one", kind=Kind.SAVEPOINT, outcome=Outcome.DONE, detail="", at=time.time(), savepoint="/s")
    desk.answer(answer)


def test_a_terminal_shows_how_much_is_copied_of_how_much_and_a_program_gets_its_one_value(tmp_path: Path):
    job, shown = make_job(tmp_path), threading.Event()
    screen, terminal = pty.openpty()
    driver = threading.Thread(target=copy, args=(job, shown))
    command = [sys.executable, "-m", "tidegate.cli.main", "savepoint", "take", "job"]
    options = ["--dir", str(tmp_path), "--id", "one", "--json", "--timeout", f"{BOUND_SECONDS:.0f}s"]
    with another_driver(job) as number:
        say(job, JobState.RUNNING, process=number, at=time.time() + SOON)
        driver.start()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
        with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=terminal, env=environment) as asking:
            os.close(terminal)
            seen = ""
            while "1.5 MB of 2.0 GB copied" not in seen:
                seen += os.read(screen, 4096).decode(errors="replace")
            shown.set()
            assert asking.stdout is not None
            answer = json.loads(asking.stdout.read())
        driver.join()
    os.close(screen)
    assert (asking.returncode, answer["outcome"], answer["savepoint"]) == (0, "done", "/s")
    assert "progress" not in answer


def test_where_nobody_looks_nothing_is_shown(tmp_path: Path):
    job, shown = make_job(tmp_path), threading.Event()
    shown.set()
    driver = threading.Thread(target=copy, args=(job, shown))
    command = [sys.executable, "-m", "tidegate.cli.main", "savepoint", "take", "job", "--dir", str(tmp_path)]
    with another_driver(job) as number:
        say(job, JobState.RUNNING, process=number, at=time.time() + SOON)
        driver.start()
        done = subprocess.run([*command, "--id", "one"], capture_output=True, text=True, timeout=BOUND_SECONDS)
        driver.join()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "savepoint job: done: \n  /s\n"
