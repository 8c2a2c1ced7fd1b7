"""What `./dev release` does with an installed wheel: `python -m tests.house.release WHEEL ENVIRONMENT FOLDER`.

It follows docs/tutorial.md in an empty folder: a socket word count is started in the background, its driver is killed,
more lines come, and the job is stopped with a savepoint.
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
from zipfile import ZipFile

from tests.house.repository import ROOT
from tests.support.peer import Peer

DEADLINE_SECONDS = 180.0


def strangers(wheel: Path) -> list[str]:
    """Files of a wheel that are not the package's own."""
    names = ZipFile(wheel).namelist()
    return [name for name in names if not name.startswith(("tidegate/", "tidegate-")) or "/tests/" in name]


def follow_the_tutorial(environment: Path, folder: Path) -> None:
    peer = Peer()  # the first terminal of the tutorial
    shutil.copy(ROOT / "examples" / "savepoint.py", folder)

    def tidegate(*arguments: str) -> str:
        print("$ tidegate", *arguments, flush=True)
        settings = {key: value for key, value in os.environ.items() if not key.startswith(("TIDEGATE_", "PYTHON"))}
        settings["PATH"] = f"{environment / 'bin'}{os.pathsep}{settings['PATH']}"
        command = [environment / "bin" / "tidegate", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    tidegate("run", "-d", "-D", "state.backend=hashmap", "savepoint.py", "--port", str(peer.port))
    try:
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
    wheel, environment, folder = map(Path, sys.argv[1:])
    if found := strangers(wheel):
        raise SystemExit(f"{wheel.name} has files that are not the package's: {', '.join(found)}")
    follow_the_tutorial(environment, folder)
    print(f"{wheel.name}: the tutorial runs")


if __name__ == "__main__":
    main()
