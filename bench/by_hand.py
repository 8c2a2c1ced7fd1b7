"""`./dev run python -m bench.by_hand`: a broker with a topic of events, and the commands of all compared programs.

It stays until Enter is pressed. The commands are for another terminal, in the project's folder. Each has a topic of its
own for its output and an empty folder.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import kafka_other
from bench.contests import EVENTS, WORKS
from bench.kafka_cluster import PARTITIONS, events_topic, fast_broker
from bench.kafka_flink import contests
from bench.watched import Entrant, Task
from tidegate.testing.kafka.topics import make_topic


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.by_hand", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"how many events the topic has ({EVENTS})")
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, fast_broker(Path(folder)) as broker:
        source = events_topic(broker.servers, events)
        tasks: list[tuple[Entrant, Task]] = []
        for number, (work, entrant) in enumerate(_all()):
            place = Path(folder) / str(number)
            place.mkdir()
            out = make_topic(broker.servers, PARTITIONS, name="out")
            tasks.append((entrant, Task(work, broker.servers, source, out, place)))
        print("\n".join(told(tasks)))
        input("\nEnter ends the broker and removes its folder. ")


def _all() -> Iterator[tuple[str, Entrant]]:
    for work in WORKS:
        for entrant in entrants_of(work):
            yield work, entrant


def entrants_of(work: str) -> list[Entrant]:
    """All programs that do this work, each once."""
    compared = [each for contest in contests(work) for each in (contest.baseline, contest.tidegate)]
    others = [case.other.entrant() for case in kafka_other.CASES.values() if case.work == work]
    return list({entrant.title: entrant for entrant in [*compared, *others]}.values())


def told(tasks: Sequence[tuple[Entrant, Task]]) -> Iterator[str]:
    """What is printed: every command that can be typed, below what it is."""
    for entrant, task in tasks:
        yield f"\n# {task.work}, {entrant.title}; output: {task.out}"
        yield shlex.join(entrant.command(task))


if __name__ == "__main__":
    main()
