"""One job of Quix Streams from topic to topic, exactly-once: run by a Python that has `quixstreams`, and not tidegate.

    python quix_program.py PROCESSES map|count SERVERS SOURCE OUT FOLDER

Its users run as many processes of one consumer group as they want tasks. A commit a second; all else as Quix has it.
The count is by another key than that of the topic, so every event goes through a topic of Quix's own. Every event gives
a row. A process ends when it has got no event for five seconds.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import subprocess
import sys
from typing import Any

_IDLE_SECONDS = 5.0


def main() -> None:
    processes, *rest = sys.argv[1:]
    if processes == "1":
        run(*rest)
    else:
        *same, folder = rest
        lines = [[sys.executable, __file__, "1", *same, f"{folder}/{number}"] for number in range(int(processes))]
        running = [subprocess.Popen(line) for line in lines]
        sys.exit(max(each.wait() for each in running))


def run(work: str, servers: str, source: str, out: str, folder: str) -> None:
    from quixstreams import Application

    app = Application(
        broker_address=servers,
        consumer_group=out,
        auto_offset_reset="earliest",
        commit_interval=1.0,
        processing_guarantee="exactly-once",
        state_dir=folder,
        loglevel="WARNING",
    )
    events = app.dataframe(app.topic(source, value_deserializer="json"))
    if work == "map":
        rows = events.apply(mapped)
    else:
        rows = events.group_by("key", key_serializer="str", key_deserializer="str").apply(counted, stateful=True)
    sink = app.topic(out, key_serializer="str", value_serializer="json")
    rows.to_topic(sink, key=lambda row: row["key"])
    app.run(timeout=_IDLE_SECONDS, collect=False)


def mapped(event: dict[str, Any]) -> dict[str, Any]:
    return {"id": event["id"], "key": event["key"], "twice": event["amount"] * 2, "text": event["text"]}


def counted(event: dict[str, Any], state: Any) -> dict[str, Any]:
    count, total = state.get("counted", (0, 0))
    count, total = count + 1, total + event["amount"] * 2
    state.set("counted", (count, total))
    return {"key": event["key"], "count": count, "sum": total}


if __name__ == "__main__":
    main()
