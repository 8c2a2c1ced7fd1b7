"""Asks Kafka's own transaction tool (`kafka-transactions.sh list`) what is open."""

from __future__ import annotations

import os
import subprocess

from tidegate.machine.java import find_java
from tidegate.testing.kafka.jars import DEFAULT_VERSION, tool_jars

_ENDED = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
_SECONDS = 120.0


def open_transactions(servers: str, version: str = DEFAULT_VERSION) -> list[str]:
    """The transactional ids whose transactions are not ended, with their states."""
    jars = tool_jars(version, lambda _: None)
    main = "org.apache.kafka.tools.TransactionsCommand"
    command = [find_java().command, "-cp", f"{jars}{os.sep}*", main, "--bootstrap-server", servers, "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS)
    return open_in(done.stdout)


def open_in(table: str) -> list[str]:
    """Of the table that the tool prints the transactions that are not ended."""
    heading, *lines = [line.split("\t") for line in table.splitlines() if line.strip()]
    at = [name.strip() for name in heading].index("TransactionState")
    return [" ".join(field.strip() for field in line) for line in lines if line[at].strip() not in _ENDED]
