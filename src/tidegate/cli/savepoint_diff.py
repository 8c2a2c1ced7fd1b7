"""`tidegate savepoint diff`: the differences between two savepoints."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate import operate
from tidegate.cli.common import Json, print_json
from tidegate.cli.tables import Column, print_table


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="One savepoint's folder, or its URI.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The other one's.")],
    json: Json = False,
) -> None:
    """Show the differences between two savepoints: by query the epoch, source ends, watermark, state, sinks,
    fingerprint.

    Only the manifests are read. Queries with the same fingerprint have the same sources, sinks, stateful operators,
    backend and partitions.

    Examples:

    - `tidegate savepoint diff /backup/savepoint-0f1e2d3c-monday /backup/savepoint-0f1e2d3c-friday`

    - `tidegate savepoint diff savepoint-0f1e2d3c-monday savepoint-0f1e2d3c-friday --json`
    """
    different = operate.compare_savepoints(before, after)
    if json:
        found = [{"what": " ".join(each.what), "a": each.before, "b": each.after} for each in different]
        print_json({"a": str(operate.Folder.of(before)), "b": str(operate.Folder.of(after)), "differences": found})
    elif not different:
        typer.echo("no difference")
    else:
        rows = [(" ".join(each.what), _shown(each.before), _shown(each.after)) for each in different]
        print_table([Column("what"), Column("A"), Column("B")], rows)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType]
    return "-" if value is None else str(value)
