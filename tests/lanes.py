"""`./dev test` without arguments: all tests, in four lanes side by side.

Most tests wait: for a JVM that starts, a broker that elects, a pause that has to pass. Each lane is a pytest process
with test files of its own. Lanes share no temporary folder, port or Spark session, as two users of one machine share
none. The lanes' outputs follow one another, and one line sums them up.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

ROOT = Path(__file__).parents[1]

LANES: tuple[tuple[str, ...], ...] = (
    ("crash", "jobs", "mysql", "postgres", "unit"),
    ("clusters", "delta", "formats", "house", "iceberg", "kafka", "outside", "simulation", "surprises"),
    ("integration/test_[a-l]*.py", "redis", "storages", "upsert"),
    ("contract", "integration/test_[m-z]*.py", "web"),
)
"""Folders and files of `tests/` by lane, as patterns, so that all lanes take about as long."""

_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 60.0
"""What an interrupted pytest may take to end what its tests have started."""
LONGEST_SECONDS = 3600.0
"""A pytest that takes longer hangs where no limit of a single test counts, and is killed."""


def main() -> int:
    colour = "yes" if sys.stdout.isatty() else "no"
    return run_lanes([paths_of(lane) for lane in LANES], ("-q", "--durations=15", f"--color={colour}"), ROOT)


def paths_of(lane: Sequence[str]) -> list[str]:
    """The folders and files of a lane, relative to the project's root."""
    return [str(path.relative_to(ROOT)) for pattern in lane for path in sorted((ROOT / "tests").glob(pattern))]


@dataclass(slots=True)
class Lane:
    """One pytest, whose output is kept in a file until it is its turn."""

    process: subprocess.Popen[bytes]
    output: Path


def run_lanes(lanes: Sequence[Sequence[str]], options: Sequence[str], root: Path) -> int:
    """Run a pytest for each lane, show the outputs one after the other, sum them up; the worst exit code."""
    with tempfile.TemporaryDirectory(prefix="tidegate-lanes-") as folder:
        interrupted = _Interrupts()
        started = [_start(Path(folder) / str(number), [*options, *lane], root) for number, lane in enumerate(lanes)]
        try:
            for number, lane in enumerate(started):
                _say(f"lane {number + 1} of {len(started)}: {' '.join(lanes[number])}")
                _follow(lane, started, interrupted)
        finally:
            for lane in started:
                _end(lane)
        outputs = [lane.output.read_text("utf-8", "replace") for lane in started]
    codes = [_exit_code(lane.process.returncode) for lane in started]
    _say(closing_line(outputs, codes))
    return max(codes)


def closing_line(outputs: Sequence[str], codes: Sequence[int]) -> str:
    """`N passed, N failed[, N skipped]` for all lanes. A lane that broke off counts as one more failure."""
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for output, code in zip(outputs, codes, strict=True):
        counts = counts_of(output)
        for name, count in counts.items():
            total[name] += count
        if code != 0 and counts.get("failed", 0) == 0:
            total["failed"] += 1
    line = f"{total['passed']} passed, {total['failed']} failed"
    return f"{line}, {total['skipped']} skipped" if total["skipped"] else line


def counts_of(output: str) -> dict[str, int]:
    """What pytest says in its own closing line; nothing where it did not come so far."""
    for line in reversed(_PLAIN.sub("", output).splitlines()):
        if _CLOSING.search(line):
            counts: dict[str, int] = {}
            for count, word in _COUNT.findall(line):
                name = _MEANS[word]
                counts[name] = counts.get(name, 0) + int(count)
            return counts
    return {}


_PLAIN = re.compile(r"\x1b\[[0-9;]*m")
_CLOSING = re.compile(r"^=* ?(no tests ran|\d+ \w+(, \d+ \w+)*) in \d+\.\d+s( \(.*\))? ?=*$")
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)")
_MEANS = {
    "passed": "passed",
    "xpassed": "failed",  # pyproject.toml has xfail_strict
    "failed": "failed",
    "error": "failed",
    "errors": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
}


class _Interrupts:
    """Ctrl-C and SIGTERM, noted. The lanes have sessions of their own, so that only we hear a terminal's.

    Each is told to the lanes once, whichever of them is being followed: a pytest that hears of one again while it ends
    its tests is killed by it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.told = 0
        self.kill_at = time.monotonic() + LONGEST_SECONDS
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


def _start(output: Path, arguments: Sequence[str], root: Path) -> Lane:
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Lane(process, output)


def _follow(lane: Lane, all_lanes: Sequence[Lane], interrupts: _Interrupts) -> None:
    """Copy the output of `lane` until it has ended; an interrupt goes to all lanes, the second kills them."""
    with lane.output.open("rb") as file:
        while True:
            ended = lane.process.poll() is not None
            _copy(file)
            if ended:
                return
            if interrupts.count > interrupts.told:
                interrupts.told = interrupts.count
                interrupts.kill_at = time.monotonic() + (_GRACE_SECONDS if interrupts.told == 1 else 0.0)
                for each in all_lanes:
                    _signal(each, signal.SIGINT)
            if time.monotonic() >= interrupts.kill_at:
                for each in all_lanes:
                    _end(each)
            time.sleep(_LOOK_SECONDS)


def _copy(file: IO[bytes]) -> None:
    while read := file.read(65_536):
        sys.stdout.buffer.write(read)
    sys.stdout.buffer.flush()


def _signal(lane: Lane, number: signal.Signals) -> None:
    """To pytest alone: it ends what its tests have started."""
    if lane.process.poll() is None:
        lane.process.send_signal(number)


def _end(lane: Lane) -> None:
    """End a lane and what is left of its session."""
    with suppress(ProcessLookupError):
        os.killpg(lane.process.pid, signal.SIGKILL)
    lane.process.wait()


def _exit_code(returned: int) -> int:
    return returned if returned >= 0 else 128 - returned


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
