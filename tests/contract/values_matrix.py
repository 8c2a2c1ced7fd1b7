"""The matrix of types, containers and sinks: `python -m tests.contract.values_matrix [--write]`.

A cell is "written", or "refused" before the start. With `--write` a value of every type is written through every sink
that takes it and read back with the tool that a user would use (Kafka's, which needs a broker, as the client would get
its messages); a value that comes back as another fails the command.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.contract.value_sinks import SINKS, ValueSink, cycled, is_taken
from tests.contract.values import CONTAINERS, TYPES, contained
from tidegate.sinks.value_table import TABLE, RefusedType, SparkType, Target


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write and read back what is written")
    write = parser.parse_args(arguments).write
    console, counted, wrong = Console(width=200), Counter[str](), list[str]()
    table = Table(title="types x containers x sinks")
    for name in ("type", "where it stands", *SINKS):
        table.add_column(name, no_wrap=True)
    for type_name in TYPES:
        for container in CONTAINERS:
            cells = [_cell(type_name, container, sink, write) for sink in SINKS.values()]
            counted.update(cells)
            wrong += [f"{type_name}, {container}" for cell in cells if cell == "WRONG"]
            table.add_row(type_name, container, *cells)
    console.print(table)
    told = ", ".join(f"{number} {name}" for name, number in sorted(counted.items()))
    console.print(f"{counted.total()} cells: {told}")
    return 1 if wrong else 0


def markdown_table() -> str:
    """The table of `tidegate.sinks.value_table`, for a document: a dash is a refusal at the start."""
    rows = [f"| type | {' | '.join(target.value for target in Target)} |", "|---" * (len(Target) + 1) + "|"]
    instead: list[str] = []
    for kind in SparkType:
        cells = TABLE[kind]
        rows.append(f"| {kind.value} | {' | '.join(_told(cells[target]) for target in Target)} |")
        remedies = dict.fromkeys(cell.instead for cell in cells.values() if isinstance(cell, RefusedType))
        if remedies:
            instead.append(f"| {kind.value} | {'; '.join(remedies)} |")
    return "\n".join([*rows, "", "| refused type | what to do in `select=[...]` |", "|---|---|", *instead])


def _told(cell: str | RefusedType) -> str:
    return "-" if isinstance(cell, RefusedType) else cell


def _cell(type_name: str, container: str, sink: ValueSink, write: bool) -> str:
    edges = contained(type_name, container)
    if edges is None or not is_taken(sink, edges[0]):
        return "refused"
    if not write:
        return "written"
    with tempfile.TemporaryDirectory() as folder:
        return "exact" if cycled(sink, {"v": edges}, Path(folder)) is None else "WRONG"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
