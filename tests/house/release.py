"""What `./dev release` does with an installed wheel: `python -m tests.house.release WHEEL BARE ALL FOLDER`.

In the environment BARE, which has the wheel alone, it runs a job from files into files and SQLite, and wants a sink of
Kafka to say what to install. In ALL, which has every extra, it follows docs/tutorial.md in an empty folder: a socket
word count is started in the background, with its page; its driver is killed, more lines come, and the job is stopped
with a savepoint.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.house.repository import ROOT
from tests.house.wheel import strangers, summary
from tests.integration.test_extras import PIPELINE
from tests.support.cards import states_on_the_page
from tests.support.peer import Peer

DEADLINE_SECONDS = 180.0


def use_without_extras(environment: Path, folder: Path) -> None:
    """A job from files into files and SQLite, and what a program says that needs Kafka."""
    folder.mkdir()
    done = run(environment, folder, "python", "-c", PIPELINE)
    if done.returncode:
        raise SystemExit(f"the base installation does not run files into SQLite\n{done.stderr}")
    done = run(environment, folder, "python", "-c", "from tidegate import KafkaSink")
    if "next:     pip install 'tidegate[kafka]'" not in done.stderr:
        raise SystemExit(f"the base installation does not say what a sink of Kafka needs\n{done.stderr}")
    print("without extras: files into files and SQLite run, Kafka names its extra")


def use_all_extras(environment: Path, folder: Path) -> None:
    folder.mkdir()
    done = run(environment, folder, "python", "-c", "from tidegate import KafkaSink, KafkaSource")
    if done.returncode:
        raise SystemExit(f"tidegate[all] lacks something\n{done.stderr}")
    follow_the_tutorial(environment, folder)
    print("with all extras: Kafka loads, the tutorial runs")


def follow_the_tutorial(environment: Path, folder: Path) -> None:
    peer = Peer()  # the first terminal of the tutorial
    shutil.copy(ROOT / "examples" / "savepoint.py", folder)

    def tidegate(*arguments: str) -> str:
        print("$ tidegate", *arguments, flush=True)
        done = run(environment, folder, "tidegate", *arguments)
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    options = ("-D", "ui.port=0", "-D", "state.backend=hashmap")
    started = tidegate("run", "-d", "--ui", *options, "savepoint.py", "--port", str(peer.port))
    try:
        await_that(lambda: states_on_the_page(started) == {"words": "RUNNING"})
        peer.send(b"to be or not to be\n", within_seconds=DEADLINE_SECONDS)
        await_that(lambda: counts(folder) == {"to": 2, "be": 2, "or": 1, "not": 1})
        driver = json.loads(tidegate("info", "words", "--json"))["process"]
        os.kill(driver, signal.SIGKILL)
        await_that(peer.was_asked_again)
        peer.send(b"to be\n")
        await_that(lambda: counts(folder) == {"to": 3, "be": 3, "or": 1, "not": 1})
    finally:
        tidegate("stop", "words", "-p", "savepoints")
    print(tidegate("savepoint", "ls", "savepoints"))


def run(environment: Path, folder: Path, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = {key: value for key, value in os.environ.items() if not key.startswith(("TIDEGATE_", "PYTHON"))}
    settings["PATH"] = f"{environment / 'bin'}{os.pathsep}{settings['PATH']}"
    line = [environment / "bin" / command, *arguments]
    return subprocess.run(line, cwd=folder, env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def counts(folder: Path) -> dict[str, int]:
    if not (folder / "words.db").exists():
        return {}
    database = sqlite3.connect(folder / "words.db", timeout=30)
    try:
        return dict(database.execute("SELECT word, count FROM counts"))
    except sqlite3.OperationalError:  # the table is not there yet
        return {}
    finally:
        database.close()


def await_that(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"not within {DEADLINE_SECONDS:g} s")
        time.sleep(0.2)


def main() -> None:
    wheel, bare, everything, folder = map(Path, sys.argv[1:])
    print(summary(wheel))
    if found := strangers(wheel):
        raise SystemExit(f"{wheel.name} has files that are not the package's: {', '.join(found)}")
    use_without_extras(bare, folder / "base")
    use_all_extras(everything, folder / "tutorial")


if __name__ == "__main__":
    main()
