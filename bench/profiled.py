"""`python -m bench.profiled map`: where the CPU time of tidegate's program goes, as a flame graph of driver, JVM and
workers, written into `docs/pictures/`.

One run of the program of `./dev bench flink` is sampled: Python by py-spy (`pip install py-spy`), the JVM by
async-profiler, which is fetched as the brokers' jars are. Both look at each thread a hundred times in a second of its
CPU time; the program is slower meanwhile, so no figure is taken from such a run.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from bench.archive import make_class_archive
from bench.contests import EVENTS, WORKS
from bench.entrants import tidegate
from bench.flames import Panel, drawn, panel_of
from bench.kafka_cluster import PARTITIONS, events_topic, fast_broker
from bench.watched import Task
from tidegate.machine.class_archive import SUBMIT_OPTIONS, environment_to_make
from tidegate.machine.jars import Bundle, fetched
from tidegate.testing.kafka.topics import make_topic

_HERTZ = 100
_JVM_ENDS_SECONDS = 30.0
"""The JVM writes its stacks when it ends, which is behind the end of the program."""
_VERSION = "4.0"
_PLATFORMS = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}
_PROCESS, _WORKER = "process ", "worker_daemon"
_WAITS = re.compile(
    r"(?:.*\.)?(?:wait|_wait_for_tstate_lock|select|poll|accept|readinto|readline|recv_into|sleep|run) \("
)
"""Innermost functions of Python threads that wait: py-spy takes them for busy ones where it is slow itself."""
_COMPILERS = "CompilerThre"
_NUMBERS = re.compile(r"[-#_ ]*\d+")
_PICTURES = Path(__file__).parent.parent / "docs" / "pictures"

Stacks = list[tuple[Sequence[str], int]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profiled", description=__doc__)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"how many events the topic has ({EVENTS})")
    asked = parser.parse_args()
    if shutil.which("py-spy") is None:
        parser.error("py-spy is not installed: pip install py-spy")
    make_class_archive(os.environ)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, fast_broker(Path(folder)) as broker:
        panels = _profiled(asked.work, asked.events, broker.servers, Path(folder))
    picture = _PICTURES / f"profile-{asked.work}.svg"
    picture.write_text(drawn(f"{asked.events:,} events: {WORKS[asked.work]}", panels), encoding="utf-8")
    print(picture, *(f"{panel.title}: {panel.seconds} CPU s" for panel in panels), sep="\n")


def _profiled(work: str, events: int, servers: str, folder: Path) -> list[Panel]:
    """Run the program once, with both profilers."""
    kept, python, java = folder / "kept", folder / "python", folder / "java"
    kept.mkdir()
    task = Task(work, servers, events_topic(servers, events), make_topic(servers, PARTITIONS, name="out"), kept)
    agent = f"-agentpath:{_agent(folder)}=start,event=ctimer,interval=10ms,threads,collapsed,file={java}"
    record = [
        "py-spy",
        "record",
        "--subprocesses",
        "--function",
        "--rate",
        str(_HERTZ),
        "--format",
        "raw",
        "--output",
        str(python),
    ]
    options = " ".join(filter(None, [os.environ.get(SUBMIT_OPTIONS), agent]))
    environment = {**environment_to_make(os.environ), SUBMIT_OPTIONS: options}
    subprocess.run([*record, "--", *tidegate("sql").command(task)], env=environment, check=True)
    end = time.monotonic() + _JVM_ENDS_SECONDS
    while not java.exists() and time.monotonic() < end:
        time.sleep(0.1)
    driver, workers = _of_python(_stacks(python))
    return [
        panel_of("driver (Python)", driver, _HERTZ),
        panel_of("JVM", _of_threads(_stacks(java)), _HERTZ),
        panel_of("workers (Python)", workers, _HERTZ),
    ]


def _agent(folder: Path) -> Path:
    """The library of async-profiler for this machine, taken out of its jar."""
    name = "async-profiler"
    bundle = Bundle(
        f"{name} {_VERSION}", f"{name}-{_VERSION}", (("tools.profiler", name, _VERSION),), f"{name}-{_VERSION}.jar"
    )
    with zipfile.ZipFile(fetched(bundle, print) / bundle.proof) as jar:
        return Path(jar.extract(f"{_PLATFORMS[platform.machine()]}/libasyncProfiler.so", folder))


def _stacks(file: Path) -> Stacks:
    lines = (line.rpartition(" ") for line in file.read_text(encoding="utf-8").splitlines())
    return [(stack.split(";"), int(times)) for stack, _, times in lines if stack]


def _of_python(stacks: Stacks) -> tuple[Stacks, Stacks]:
    """Those of the driver and those of all workers. A stack begins with its process, behind those that have started
    it.
    """
    driver, workers = Stacks(), Stacks()
    for frames, times in stacks:
        if _WAITS.match(frames[-1]):
            continue
        processes = list(takewhile(lambda frame: frame.startswith(_PROCESS), frames))
        of_worker = any(_WORKER in process for process in processes)
        (workers if of_worker else driver).append((frames[len(processes) :], times))
    return driver, workers


def _of_threads(stacks: Stacks) -> Iterator[tuple[Sequence[str], int]]:
    """Those of the JVM. Threads of one kind count together, and a frame has no package."""
    for (thread, *frames), times in stacks:
        name = _NUMBERS.sub("", thread.strip("[]").partition(" tid=")[0]).partition(" for ")[0]
        kind = "compilers" if _COMPILERS in name else name
        yield [kind, *(frame.rpartition("/")[2] for frame in frames)], times


if __name__ == "__main__":
    main()
