"""Makes the archive of Spark's classes while a job runs, so that no user has to ask for it.

`tidegate run` does this once on a machine, when a job has run for a minute: a start is then over, and the archive pays
off at the next one. The process that makes it has the lowest priority. An error changes nothing for the job.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

from tidegate.core.errors import TidegateError
from tidegate.machine.class_archive import archive_to_make, command_to_make, environment_to_make
from tidegate.operate.failures import Failure
from tidegate.settings.kinds import WarmUp
from tidegate.storages.schemes import Folder
from tidegate.supervise.news import News, PassedOn
from tidegate.supervise.session_processes import end_processes

AFTER_SECONDS = 60.0
"""Time that a job runs before the archive is made."""
_LOWEST_PRIORITY = 19
_PATIENCE_SECONDS = 900.0
"""Time limit for the process that makes the archive."""
_SHOWN_CHARACTERS = 300
_LOOK_SECONDS = 0.2


class BackgroundWarmUp(PassedOn):
    """Passes the news of one supervisor on, and makes the archive beside its job if the job's settings allow it."""

    def __init__(self, told: News, environment: Mapping[str, str], after_seconds: float = AFTER_SECONDS) -> None:
        super().__init__(told)
        self._environment = environment
        self._after_seconds = after_seconds
        self._warm_up = WarmUp.OFF
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._not_running = threading.Event()

    def declared(self, job: str, folder: Folder, warm_up: WarmUp) -> None:
        self._warm_up = warm_up
        super().declared(job, folder, warm_up)

    def running(self) -> None:
        super().running()
        self._not_running.clear()
        if self._warm_up is WarmUp.BACKGROUND and self._thread is None:
            self._thread = threading.Thread(target=self._after_a_while, name="tidegate-warm-up", daemon=True)
            self._thread.start()

    def failed(self, failure: Failure) -> None:
        self._not_running.set()
        super().failed(failure)

    def close(self) -> None:
        """The supervisor ends: a process that makes the archive ends, too."""
        self._closed.set()
        self._not_running.set()
        if self._thread is not None:
            self._thread.join()

    def _after_a_while(self) -> None:
        while self._not_running.wait(self._after_seconds):
            if self._closed.wait(_LOOK_SECONDS):
                return
        try:
            archive = archive_to_make(self._environment)
        except TidegateError:  # no Java is found: then no job would run here, but for a session of another machine
            return
        if archive is None:
            return
        begun = time.monotonic()
        try:
            failure = self._make(archive)
            if failure is None:
                self._told.warmed_up(archive, archive.stat().st_size, time.monotonic() - begun)
        except OSError as error:
            failure = str(error)
        if failure is not None and not self._closed.is_set():
            self._told.warm_up_failed(failure)

    def _make(self, archive: Path) -> str | None:
        """Run the process that makes the archive. Returns the reason if it fails."""
        with TemporaryFile() as errors:
            process = subprocess.Popen(
                command_to_make(archive, _LOWEST_PRIORITY),
                env=environment_to_make(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
            end = time.monotonic() + _PATIENCE_SECONDS
            while process.poll() is None:
                if self._closed.wait(_LOOK_SECONDS) or time.monotonic() > end:
                    end_processes(process.pid, 0.0)
                    process.wait()
            if process.returncode == 0:
                return None
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
        return (lines[-1] if lines else f"exit code {process.returncode}")[:_SHOWN_CHARACTERS]
