"""A process does not wait at its end for a disk that hangs under files that are read side by side."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, threading
from tidegate.disk.side_by_side import THREADS, side_by_side

nothing_comes, held_open = os.pipe()
reading = threading.Semaphore(0)

def read(_number):
    reading.release()
    os.read(nothing_comes, 1)

threading.Thread(target=lambda: list(side_by_side(read, range(THREADS * 2))), daemon=True).start()
for _ in range(THREADS):
    reading.acquire()
print("all of them hang")
"""
BOUND_SECONDS = 60.0


def test_a_process_ends_while_all_that_it_reads_side_by_side_hangs():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=BOUND_SECONDS)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "all of them hang\n", "")
