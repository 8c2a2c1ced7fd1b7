"""One driver of the demo: its own process group with Python and the JVM; started and killed by the demo."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tidegate.settings.config import Settings
from tidegate.testing.demo import child
from tidegate.testing.demo.ends import Ends
from tidegate.testing.demo.places import Gate, Places
from tidegate.testing.demo.schedule import Kill

_PROGRAMS = Path(__file__).parent / "programs"
_END_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_LOG_LINES = 12
_ON_A_SMALL_MACHINE = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
}
"""Spark's settings for cheap starts; the two programs run with the same."""


class DemoFailed(Exception):
    """The demo could not run. This is no result about exactness."""


class Driver:
    """A started driver. Closing its standard input tells it to end."""

    def __init__(
        self, places: Places, ends: Ends, run: int, gate: Gate, *, settings: Settings, kill: Kill | None
    ) -> None:
        self._places = places
        self._run = run
        program = _PROGRAMS / (ends.programs.exact if gate is Gate.on else ends.programs.plain)
        environment = {**_environment(places, run, settings), **ends.environment(), **_hold(places, run, gate, kill)}
        with places.log(run).open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(program)],
                env=environment,
                cwd=places.root,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def raise_if_ended(self) -> None:
        """Raise DemoFailed if the driver has ended although it was not told to."""
        if self._process.poll() is not None:
            raise DemoFailed(f"driver {self._run} ended by itself:\n{self.last_words()}")

    def kill(self) -> None:
        """Send SIGKILL to the driver's whole process group."""
        self._kill_group()
        self._close()

    def kill_python(self) -> None:
        """Send SIGKILL to the driver's Python process alone. Its JVM continues."""
        self._process.kill()
        self._close()

    def end(self) -> None:
        """Tell the driver to end, and wait for its end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise DemoFailed(f"driver {self._run} did not end:\n{self.last_words()}") from None
        if code != 0:
            raise DemoFailed(f"driver {self._run} ended with exit code {code}:\n{self.last_words()}")

    def is_gone(self) -> bool:
        """True if the process group has no process left.

        Its number may then be reused: send no signal to it any more.
        """
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def destroy(self, wait_seconds: float) -> None:
        """Kill all remaining processes of the group, and wait up to `wait_seconds` until they are gone."""
        if self._process.returncode is None or not self.is_gone():
            self._kill_group()
        self._close()
        end = time.monotonic() + wait_seconds
        while not self.is_gone() and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)

    def last_words(self) -> str:
        """The last part of the driver's output, for an error message."""
        text = self._places.log(self._run).read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-_LOG_LINES:])

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _close(self) -> None:
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def _environment(places: Places, run: int, settings: Settings) -> dict[str, str]:
    """The environment variables of a driver: its settings, and a temporary folder that is deleted with the demo's
    folder.
    """
    temporary = places.root / "temporary"
    temporary.mkdir(exist_ok=True)
    # Below the working folder: the value is a list, and a path may have its separator in it.
    conf = {**_ON_A_SMALL_MACHINE, "spark.local.dir": temporary.name}
    arguments = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    java = f"-Djava.io.tmpdir={shlex.quote(str(temporary))} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        **inherited,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "--driver-java-options", java, "pyspark-shell"]),
        "TMPDIR": str(temporary),
        "TIDEGATE_CHECKPOINTING_DIR": settings.checkpointing_dir,
        "TIDEGATE_CHECKPOINTING_INTERVAL": str(settings.checkpointing_interval),
        child.FOLDER: str(places.root),
        child.RUN: str(run),
    }


def _hold(places: Places, run: int, gate: Gate, kill: Kill | None) -> Mapping[str, str]:
    """The environment variables that make the driver wait where `kill` is to strike; empty without a kill."""
    if kill is None:
        return {}
    if gate is Gate.off:
        return {child.HOLD: f"{kill.phase.name}@{kill.epoch}"}
    # A strike holds one thread, so that the second is left for the other query. The names are below the driver's
    # working folder: a path may have characters that end a strike.
    strikes = [f"{kill.point}@{kill.epoch}=hold:{places.held(run, query).name}" for query in (1, 2)]
    return {"TIDEGATE_TESTING": "1", "TIDEGATE_FAILPOINTS": ",".join(strikes)}
