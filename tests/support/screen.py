"""What stands on the screen of a user who runs a program: a pseudo-terminal of the kernel's, read to its end."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.driver import PYTHON_PATH

_BOUND_SECONDS = 400.0
TIDEGATE = str(Path(sys.executable).with_name("tidegate"))


def screen_of(command: Sequence[str], folder: Path, **environment: str) -> tuple[int, str]:
    """A command's exit code, and both its streams as they came, from the first line to the last; `folder` is `~`.

    The terminal is one without a cursor (`TERM=dumb`), in which nothing is drawn over.
    """
    shell, end = pty.openpty()
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=end,
        stdout=end,
        stderr=end,
        env={**surroundings(), "TERM": "dumb", **environment},
        start_new_session=True,
    )
    os.close(end)
    try:
        written = _read_to_the_end(shell)
        code = process.wait(10)
    finally:
        os.close(shell)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, masked(written.decode(errors="replace").replace("\r\n", "\n"), folder)


def masked(text: str, folder: Path) -> str:
    """A text of a user's screen with the user's folder as `~`."""
    return text.replace(str(folder), "~")


def surroundings() -> dict[str, str]:
    """The environment of a user who has set nothing up, for programs that import what the tests do."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    return {**own, "PYTHONPATH": PYTHON_PATH, "SPARK_LOCAL_IP": "127.0.0.1"}


def _read_to_the_end(shell: int) -> bytes:
    """Until the last process that has the terminal closes it."""
    written, bound = b"", time.monotonic() + _BOUND_SECONDS
    with suppress(OSError):  # the last one has closed it
        while time.monotonic() < bound:
            if select.select([shell], [], [], 0.5)[0]:
                written += os.read(shell, 65_536)
    return written
