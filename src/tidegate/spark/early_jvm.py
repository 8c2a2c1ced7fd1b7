"""A JVM that starts before the program asks for a session.

It is used if the program then asks in the same environment and the same folder; a JVM takes both at its start. In any
other case it is ended, and the session gets a JVM of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tidegate.machine.class_archive import SUBMIT_OPTIONS, archive_to_use, options_to_use
from tidegate.spark.jvm_jars import arguments_for
from tidegate.spark.jvm_output import QuietJvm, launch_quietly, log_options, spark_log, starts_quietly
from tidegate.storages.schemes import Folder
from tidegate.submit.submission import SUBMIT_ARGUMENTS

PYTHON = "PYSPARK_PYTHON"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a JVM takes from its parent at its start."""

    environment: Mapping[str, str]
    folder: str

    @classmethod
    def now(cls) -> Surroundings:
        return cls(dict(os.environ), os.getcwd())


@contextmanager
def environment_of_a_jvm(job_folder: Folder) -> Generator[None]:
    """A JVM that is started in this block writes Spark's log of a job in this folder. It has this Python, the jars for
    the folder's storage, and the archive of `tidegate warm-up`, if there is one."""
    of_the_log = log_options(spark_log(job_folder, os.environ), os.environ)
    archive = archive_to_use(os.environ)
    options = [os.environ.get(SUBMIT_OPTIONS), *([] if archive is None else [options_to_use(archive)]), of_the_log]
    wanted = {SUBMIT_OPTIONS: " ".join(filter(None, options)), PYTHON: os.environ.get(PYTHON, sys.executable)}
    arguments = arguments_for(job_folder, os.environ)
    if arguments is not None:
        wanted[SUBMIT_ARGUMENTS] = arguments
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@dataclass(frozen=True, slots=True)
class EarlyJvm:
    """A JVM, and what it has taken from this process."""

    jvm: QuietJvm
    surroundings: Surroundings

    def fitting(self, surroundings: Surroundings) -> QuietJvm | None:
        """The JVM, if it would take the same from this process now; otherwise it is ended."""
        if self.surroundings == surroundings:
            return self.jvm
        with suppress(Exception):
            self.jvm.end()
        return None


def start_early(job_folder: Folder, meanwhile: Callable[[], object]) -> None:
    """Start the JVM of a job in this folder, if `open_session` would start one, and wait until it answers. Meanwhile no
    code of the program may run: the environment of this process is that of the JVM.

    `meanwhile`: starts what works beside it. It is called when the environment has been read, because imports change
    it for a moment (numpy sets `OPENBLAS_MAIN_FREE` and removes it).

    An error is left to the start of the session, which meets it again.
    """
    global _early
    if not starts_quietly(os.environ):
        return
    with suppress(Exception), environment_of_a_jvm(job_folder):
        surroundings = Surroundings.now()
        meanwhile()
        _early = EarlyJvm(launch_quietly(), surroundings)


def launched_jvm() -> QuietJvm:
    """Inside `environment_of_a_jvm`: the JVM that has started early, or a new one."""
    return _taken(Surroundings.now()) or launch_quietly()


def end_early() -> None:
    """The program has a session of its own: an early JVM is of no use."""
    _taken(_NOWHERE)


def _taken(surroundings: Surroundings) -> QuietJvm | None:
    global _early
    early, _early = _early, None
    return None if early is None else early.fitting(surroundings)


_early: EarlyJvm | None = None
_NOWHERE = Surroundings({}, "")
