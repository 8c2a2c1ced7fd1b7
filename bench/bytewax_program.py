"""One job of Bytewax from topic to topic, at-least-once, which is what its Kafka sink has: run by a Python that has
`bytewax[kafka]`, and not tidegate.

    python bytewax_program.py PROCESSES map|count SERVERS SOURCE OUT FOLDER

Its users run several processes, because the threads of one share Python's lock. A snapshot a second into a recovery
store in FOLDER; all else as Bytewax has it. Every event gives a row. The processes end at the end of the topic.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    processes, work, servers, source, out, folder = sys.argv[1:]
    subprocess.run([sys.executable, "-m", "bytewax.recovery", folder, processes], check=True)
    here = Path(__file__)
    addresses = ";".join(f"127.0.0.1:{port}" for port in free_ports(int(processes)))
    program = f"{here.stem}:flow({work!r}, {servers!r}, {source!r}, {out!r})"
    line = [sys.executable, "-m", "bytewax.run", program, "-r", folder, "-s", "1", "-b", "0", "-a", addresses, "-i"]
    environment = {**os.environ, "PYTHONPATH": str(here.parent)}
    running = [subprocess.Popen([*line, str(number)], env=environment) for number in range(int(processes))]
    sys.exit(max(each.wait() for each in running))


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def flow(work: str, servers: str, source: str, out: str) -> Any:
    import bytewax.operators as op
    from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
    from bytewax.dataflow import Dataflow

    def message(row: dict[str, Any]) -> KafkaSinkMessage[bytes, bytes]:
        return KafkaSinkMessage(row["key"].encode(), json.dumps(row).encode())

    flow = Dataflow("bench")
    records = op.input("source", flow, KafkaSource([servers], [source], tail=False))
    events = op.map("parse", records, lambda record: json.loads(record.value))
    if work == "map":
        rows = op.map("map", events, mapped)
    else:
        by_key = op.key_on("by-key", events, lambda event: event["key"])
        rows = op.key_rm("row", op.stateful_map("count", by_key, counted))
    op.output("sink", op.map("message", rows, message), KafkaSink([servers], out))
    return flow


def mapped(event: dict[str, Any]) -> dict[str, Any]:
    return {"id": event["id"], "key": event["key"], "twice": event["amount"] * 2, "text": event["text"]}


def counted(state: tuple[int, int] | None, event: dict[str, Any]) -> tuple[tuple[int, int], dict[str, Any]]:
    count, total = state or (0, 0)
    count, total = count + 1, total + event["amount"] * 2
    return (count, total), {"key": event["key"], "count": count, "sum": total}


if __name__ == "__main__":
    main()
