"""Draws rows for every sink, writes them and reads them back: `python -m tests.contract.draws [--draws N] [SINK ...]`.

A draw is a schema of up to two columns of nested types with up to three rows. It prints draws and seconds of each sink,
and ends at the first row that came back as another, or was refused without need, with the smallest such rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.drawn import Columns, rows_for
from tests.contract.value_sinks import SINKS, ValueSink, cycled


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10_000, help="for each sink (10,000)")
    parser.add_argument("sinks", nargs="*", metavar="SINK", help=f"of {', '.join(SINKS)}; all when none is given")
    given_ = parser.parse_args(arguments)
    for name in given_.sinks or SINKS:
        begun = time.monotonic()
        drawn, rows = search(SINKS[name], given_.draws)
        print(f"{name}: {drawn} draws, {rows} rows, {time.monotonic() - begun:.0f} s: nothing found", flush=True)
    return 0


def search(sink: ValueSink, draws: int) -> tuple[int, int]:
    """Raises AssertionError at what comes back as another. Gives how many schemas and rows were drawn."""
    drawn = rows = 0

    # Nothing is kept between runs: a busy machine is no failure, and each run draws anew.
    @settings(max_examples=draws, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(columns=rows_for(sink), replace=st.booleans())
    def draw(columns: Columns, replace: bool) -> None:
        nonlocal drawn, rows
        drawn, rows = drawn + 1, rows + len(next(iter(columns.values()))[1])
        with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
            assert cycled(sink, columns, Path(folder), replace=replace) is None

    draw()
    return drawn, rows


_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""The folder decides nothing about values: what is synced there is another test's matter."""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
