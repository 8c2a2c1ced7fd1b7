"""The output of a JVM that tidegate starts: Spark's log goes into a file of the job; messages of its start are hidden.

Spark and Java write a dozen lines at each start, and about a hundred for a failed epoch. These would hide the one error
with the next step. So Spark's own log goes to a file of the job. The standard error of the JVM and its Python workers
goes to this process, which passes it on after the session is ready. `TIDEGATE_VERBOSE=1` leaves all output as Spark has
it.
"""

from __future__ import annotations

import os
import select
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway

from tidegate.logs.last_word import is_verbose
from tidegate.machine.class_archive import SUBMIT_OPTIONS
from tidegate.machine.folder_here import folder_here
from tidegate.operate.app_check import CHECK_ONLY
from tidegate.storages.schemes import Folder

_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
_SAYS_OPTIONS = (SUBMIT_OPTIONS, "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS")


def spark_log(job_folder: Folder, environment: Mapping[str, str]) -> Path:
    """The file of Spark's log. A program that is only checked writes nothing into its job's folder."""
    if environment.get(CHECK_ONLY):
        return Path(tempfile.gettempdir()) / f"tidegate-check-{os.getpid()}.spark.log"
    return folder_here(job_folder) / "logs" / "spark.log"


def log_options(log: Path, environment: Mapping[str, str]) -> str:
    """Options for the JVM that direct Spark's log to `log`; none if the user has configured the log."""
    if is_verbose(environment) or _is_set_up(environment) or '"' in str(log):
        return ""
    return f'-Dlog4j2.configurationFile={_CONFIGURATION.as_uri()} "-Dtidegate.spark.log={log}"'


def see_the_cause() -> str:
    """The first words of a next step: where the complete error of Spark is logged."""
    return "see Spark's log" if _log_here is None else f"see Spark's log in {_log_here}"


@dataclass(frozen=True, slots=True)
class QuietJvm:
    """A JVM that was started here, and its standard error, which is held back."""

    gateway: Any
    relay: Relay

    def end(self) -> None:
        """It is of no use: close its standard input, which ends it."""
        self.gateway.shutdown()
        self.gateway.proc.stdin.close()


def launch_quietly() -> QuietJvm:
    """Start a JVM in the environment of this process. Spark's Python does not know it yet."""
    reading, writing = os.pipe()
    relay = Relay(reading)
    try:
        return QuietJvm(launch_gateway(None, {"stderr": writing}), relay)
    except BaseException:
        relay.hand_on(held=True)
        raise
    finally:
        os.close(writing)


def starts_quietly(environment: Mapping[str, str]) -> bool:
    """True if this process would start a JVM, and hold back its output."""
    return not (is_verbose(environment) or "PYSPARK_GATEWAY_PORT" in environment or _has_jvm())


def is_own_jvm() -> bool:
    """True if tidegate has started the JVM of this process, and has held back its output."""
    return _is_own_jvm


_OWN = 2
"""Folders above a log that no other job uses: that of the job's logs, and that of the job."""


@contextmanager
def quiet_start(
    environment: Mapping[str, str], log: Path | None, launched: Callable[[], QuietJvm] = launch_quietly
) -> Generator[None, None, None]:
    """Start the JVM of Spark, and hold back its standard error inside the block.

    Later output is shown when the block has ended. If the block raises an error, the output that was held back is
    shown, too. Nothing is started or held back with `TIDEGATE_VERBOSE=1`, or if there is a JVM already. `log`: the file
    of Spark's log. `launched`: gives the JVM.
    """
    if not starts_quietly(environment):
        yield
        return
    global _log_here, _is_own_jvm
    own = () if log is None else log.parents[:_OWN]
    made = [folder for folder in own if not folder.exists()]  # log4j creates them before it needs them
    jvm = launched()
    try:
        SparkContext._ensure_initialized(gateway=jvm.gateway)  # pyright: ignore[reportPrivateUsage]
        _log_here, _is_own_jvm = log, True
        yield
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
    except BaseException:
        jvm.relay.hand_on(held=True)
        raise
    jvm.relay.hand_on(held=False)


def make_room_for_log() -> None:
    """Create the folder of Spark's log. Called when the start of the job holds the locks of the job's folder."""
    if _log_here is not None:
        with suppress(OSError):
            _log_here.parent.mkdir(exist_ok=True)


class Relay:
    """Reads the output of a JVM, holds it back, and passes it on after a call."""

    def __init__(self, reading: int) -> None:
        self._reading = reading
        self._held = bytearray()
        self._hands_on = False
        self._lock = threading.Lock()
        threading.Thread(target=self._read, name="tidegate-jvm-output", daemon=True).start()

    def hand_on(self, *, held: bool) -> None:
        """Pass on all output from now on; with `held` also the output that was held back."""
        with self._lock:
            self._take_what_is_there()
            if held:
                _show(bytes(self._held))
            self._held.clear()
            self._hands_on = True

    def _read(self) -> None:
        while True:
            select.select([self._reading], [], [])
            with self._lock:
                if not self._take_what_is_there():
                    return

    def _take_what_is_there(self) -> bool:
        """Read the output that is there, and show it or hold it back.

        Returns False at the end of the output: every process that could write has ended.
        """
        while select.select([self._reading], [], [], 0)[0]:
            data = os.read(self._reading, _AT_ONCE_BYTES)
            if not data:
                return False
            if self._hands_on:
                _show(data)
            else:
                self._held += data
                del self._held[:-_HELD_BYTES]
        return True


_log_here: Path | None = None
"""The file of Spark's log, if this process has started a JVM that writes one."""

_is_own_jvm = False

_AT_ONCE_BYTES = 1 << 16
_HELD_BYTES = 1 << 18


def _show(data: bytes) -> None:
    """Write output of the JVM to the standard error of this process.

    A failed write is ignored, for example if the standard error is closed.
    """
    with suppress(OSError):
        while data:
            data = data[os.write(2, data) :]


def _has_jvm() -> bool:
    return SparkContext._gateway is not None  # pyright: ignore[reportPrivateUsage]


def _is_set_up(environment: Mapping[str, str]) -> bool:
    """True if the user has configured log4j: in an option, or in the folder of Spark's configuration."""
    if any("log4j" in environment.get(name, "") for name in _SAYS_OPTIONS):
        return True
    folders = [environment.get("SPARK_CONF_DIR"), *(f"{home}/conf" for home in [environment.get("SPARK_HOME")] if home)]
    return any(folder and list(Path(folder).glob("log4j2.*")) for folder in folders)
