"""CPU time and memory of a run: what counts, and which processes belong to it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from bench.footprint import Footprint, Sample, cpu_seconds_of_sessions, footprint_of, living_of

TICKS = os.sysconf("SC_CLK_TCK")


def sample(seconds: int, mib: int, begun: int = 1) -> Sample:
    return Sample(session=7, begun=begun, ticks=seconds * TICKS, pages=mib * 2**20 // os.sysconf("SC_PAGE_SIZE"))


def test_a_process_counts_with_its_last_cpu_time_also_when_it_has_ended() -> None:
    footprint = Footprint()
    for living in ({1: sample(1, 10)}, {1: sample(2, 10), 2: sample(5, 10)}, {1: sample(3, 10)}):
        footprint.add(living)
    assert footprint.cpu_seconds == 8.0


def test_memory_is_the_largest_sum_of_one_moment_and_not_the_sum_of_the_peaks() -> None:
    footprint = Footprint()
    for living in ({1: sample(0, 100)}, {1: sample(0, 60), 2: sample(0, 70)}, {2: sample(0, 120)}):
        footprint.add(living)
    assert footprint.peak_mib == 130.0


def test_a_number_that_is_used_again_is_another_process() -> None:
    footprint = Footprint()
    footprint.add({1: sample(2, 10, begun=1)})
    footprint.add({1: sample(3, 10, begun=2)})
    assert footprint.cpu_seconds == 5.0


def test_the_name_of_a_process_may_hold_brackets_and_spaces() -> None:
    fields = b"S 1 7 7 0 -1 0 0 0 0 0 11 22 0 0 20 0 1 0 333 4444 55 0"
    assert Sample.of(b"9 (a) b (c) " + fields) == Sample(session=7, begun=333, ticks=33, pages=55)


def test_the_processes_of_a_session_are_found_with_the_children_of_its_leader() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    others: set[int] = set()
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        with footprint_of(leader.pid) as footprint:
            found = living_of(leader.pid, others)
            bound = time.monotonic() + 60
            while not footprint.peak_pages and time.monotonic() < bound:  # a process that ends has no memory any more
                time.sleep(0.01)
            leader.communicate(b"\n")
    assert leader.pid in found
    assert len(found) == 2
    assert os.getpid() in others
    assert footprint.peak_mib > 1


def test_a_session_that_has_ended_has_used_nothing() -> None:
    assert living_of(2**22 + 1, set()) == {}
    assert Footprint().cpu_seconds == pytest.approx(0.0)


def test_a_child_with_a_session_of_its_own_counts_with_the_leader_that_started_it() -> None:
    """PostgreSQL starts each backend so."""
    burn = "import os; [None for _ in iter(lambda: os.times().user < 0.3, False)]; print(1, flush=True); input()"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], start_new_session=True)"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        living = cpu_seconds_of_sessions({leader.pid}, of_children=[leader.pid])
        leader.communicate(b"\n")
    assert living >= 0.3
