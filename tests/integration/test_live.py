"""The live view in a real terminal (a pseudo-terminal of the kernel's), and its absence where there is none."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from rich.console import Console

from tests.support.driver import PYTHON_PATH
from tests.unit.test_live_view import beat, query
from tidegate.cli.live import LiveView
from tidegate.operate.beat import write_beat

PROGRAM = Path(__file__).with_name("live_program.py")
DRIVER = """
import sys, time
print("to the standard output")
print("\\x1b[31mred\\x1b[0m to the standard error, " + "long " * 40, file=sys.stderr)
print("no end of line", end="")
time.sleep(60)
"""
SECONDS = "1.5"


def in_terminal(folder: Path, resize: tuple[int, int] | None = None, **environment: str) -> str:
    """Everything that the program sends to a terminal of 24 lines and 100 columns."""
    shell, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    given = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), DRIVER, SECONDS],
        stdin=end,
        stdout=end,
        stderr=end,
        env={**given, "TERM": "xterm-256color", "PYTHONPATH": PYTHON_PATH, **environment},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(end)
    written = b""
    bound = time.monotonic() + 30
    try:
        while time.monotonic() < bound:
            if select.select([shell], [], [], 0.1)[0]:
                try:
                    written += os.read(shell, 65_536)
                except OSError:  # the last one has closed the terminal
                    break
            if resize is not None and b"open transactions" in written:
                fcntl.ioctl(shell, termios.TIOCSWINSZ, struct.pack("HHHH", *resize, 0, 0))
                written, resize = written + b"\0", None
    finally:
        os.close(shell)
        if process.wait(10) != 0:
            raise AssertionError(written.decode(errors="replace"))
    return written.decode()


def plain(text: str) -> str:
    """Without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    now = time.time() + 3600  # of this driver, whenever it starts
    write_beat(tmp_path, beat(query(), query(uid="lines"), started_at=now, at=now, progress_at=now))
    return tmp_path


def test_a_terminal_shows_the_job_below_what_it_prints(folder: Path):
    written = in_terminal(folder)
    text = plain(written)
    for line in ("to the standard output", "red to the standard error", "no end of line", "the job has ended"):
        assert text.count(line) == 1, line
    assert "long " * 40 in text, "a long line is left to the terminal to fold, so that it can be copied whole"
    assert "wordcount  running" in text
    assert "open transactions" in text
    assert text.count("stopping: waits for epoch 18 of counts and epoch 18 of lines; Ctrl-C again ends at once") >= 1
    assert written.endswith("after the view\r\n")
    assert written.rindex("\x1b[?25h") > written.rindex("wordcount"), "the cursor is back"


def test_the_view_fits_a_terminal_that_became_smaller(folder: Path):
    _, _, after = in_terminal(folder, resize=(10, 40)).partition("\0")
    views = [line for line in plain(after).splitlines() if line.startswith("wordcount")]
    assert views
    assert max(map(len, views[1:] or views)) <= 40


def test_no_colour_is_sent_to_who_wants_none(folder: Path):
    written = in_terminal(folder, NO_COLOR="1")
    assert "wordcount" in plain(written)
    of_the_view = written.replace("\x1b[31mred\x1b[0m", "")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", of_the_view)


def test_a_dumb_terminal_gets_lines_and_no_view(folder: Path):
    written = in_terminal(folder, TERM="dumb")
    assert "to the standard output" in written
    assert "wordcount" not in written
    assert "Ctrl-C again ends at once" in written
    assert written.replace("\x1b[31m", "").replace("\x1b[0m", "").count("\x1b") == 0


def test_without_a_terminal_nothing_is_shown(folder: Path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), DRIVER.replace("60", "0"), "0.5"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH, "FORCE_COLOR": "1", "TERM": "xterm"},
    )
    assert done.stdout == "to the standard output\nno end of line"
    assert "wordcount" not in done.stderr
    lines = done.stderr.splitlines()
    assert [line for line in lines if "long" not in line] == ["the job has ended", "after the view"]


def test_a_terminal_that_is_closed_holds_no_job_up(folder: Path):
    """Its output goes nowhere from then on, but it goes: in a full pipe the driver would stand still."""
    shell, end = pty.openpty()
    driver = f"""
import pathlib
for number in range(3000):
    print("a line of some length, again and again, " * 3)
pathlib.Path({str(folder / "through")!r}).touch()
"""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), driver, "20"],
        stdin=subprocess.DEVNULL,
        stdout=end,
        stderr=end,
        env={**os.environ, "TERM": "xterm", "PYTHONPATH": PYTHON_PATH},
    )
    os.close(end)
    try:
        os.read(shell, 10)
        os.close(shell)
        bound = time.monotonic() + 15
        while not (folder / "through").exists():
            assert time.monotonic() < bound
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()


def test_a_view_that_breaks_holds_nobody_up_and_every_line_still_comes(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object) -> None:
        raise ValueError("what nobody thought of")

    monkeypatch.setattr(Console, "print", broken)
    shell, end = pty.openpty()
    output = os.open(os.devnull, os.O_WRONLY)
    seen = bytearray()
    reader = threading.Thread(target=read_all, args=(shell, seen), daemon=True)
    reader.start()
    lines = b"".join(b"line %d\n" % number for number in range(20_000))  # more than a pipe holds
    with LiveView(end, (output,)):
        writer = threading.Thread(target=write_all, args=(output, lines), daemon=True)
        writer.start()
        writer.join(20)
        held_up = writer.is_alive()
    os.close(end)
    reader.join(20)
    os.close(output)
    os.close(shell)
    assert not held_up
    text = bytes(seen).replace(b"\r\n", b"\n")
    assert b"the live view has ended (ValueError: what nobody thought of)" in text
    assert text.endswith(lines)


def read_all(shell: int, seen: bytearray) -> None:
    """Until nobody has the other end any more, which Linux tells by an error."""
    with suppress(OSError):
        while data := os.read(shell, 65_536):
            seen += data


def write_all(output: int, data: bytes) -> None:
    while data:
        data = data[os.write(output, data) :]
