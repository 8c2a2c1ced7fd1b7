"""SIGTERM to a program whose main thread does something of its own."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import os, signal, threading, time
from tidegate.spark.interrupts import obey_signals

lock = threading.Lock()

class Job:
    def __init__(self):
        self.ended = threading.Event()

    def ask_to_stop(self):
        threading.Thread(target=self.end, daemon=True).start()

    def end(self):
        with lock:
            print("ended", flush=True)
        self.ended.set()

    def await_end(self, timeout_seconds=None):
        return self.ended.wait(timeout_seconds)

obey_signals(Job())
with lock:
    os.kill(os.getpid(), signal.SIGTERM)
time.sleep(30)
"""

LOST = """
import os, signal, threading, time
from tidegate.spark import interrupts

ended, kill = threading.Event(), os.kill

class Job:
    def ask_to_stop(self):
        ended.set()

    def await_end(self, timeout_seconds=None):
        return ended.wait(timeout_seconds)

def second_is_lost(process, number, lost=[]):
    if lost or not ended.is_set():
        kill(process, number)
    lost.append(ended.is_set())

os.kill = second_is_lost
interrupts.obey_signals(Job())
kill(os.getpid(), signal.SIGTERM)
time.sleep(30)
"""
"""A signal that comes directly before the main thread sleeps is as good as lost."""


def test_a_job_ends_although_it_needs_a_lock_that_the_main_thread_holds_when_the_signal_comes():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "ended\n"), done.stderr


def test_a_job_ends_although_the_signal_that_comes_behind_its_end_is_lost():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == -signal.SIGTERM, done.stderr
