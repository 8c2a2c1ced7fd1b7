"""`tidegate savepoint diff`: what two savepoints have different."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.common import Json, print_json
from tidegate.cli.savepoint_view import queries, summary
from tidegate.cli.tables import Column, print_table

if TYPE_CHECKING:  # loaded when used: other commands need not wait for it
    from tidegate.savepoints.folder import Savepoint

_OF_THE_FOLDER = frozenset({"path", "epochs"})
"""Not compared: where they lie, and what is said of each query anyway."""


def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="One savepoint's folder.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The other one's.")],
    json: Json = False,
) -> None:
    """Show what two savepoints have different: by query the epoch, source ends, watermark, state, sinks, fingerprint.

    It reads the manifests alone. Queries of equal fingerprint have the same sources, sinks, stateful operators, backend
    and partitions.

    Examples:

    - `tidegate savepoint diff /backup/savepoint-0f1e2d3c-monday /backup/savepoint-0f1e2d3c-friday`

    - `tidegate savepoint diff savepoint-0f1e2d3c-monday savepoint-0f1e2d3c-friday --json`
    """
    from tidegate.savepoints.folder import open_savepoint

    left, right = _flat(open_savepoint(before.absolute())), _flat(open_savepoint(after.absolute()))
    names = [*left, *(name for name in right if name not in left)]
    different = [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]
    if json:
        found = [{"what": " ".join(name), "a": one, "b": other} for name, one, other in different]
        print_json({"a": str(before.absolute()), "b": str(after.absolute()), "differences": found})
    elif not different:
        typer.echo("no difference")
    else:
        rows = [(" ".join(name), _shown(one), _shown(other)) for name, one, other in different]
        print_table([Column("what"), Column("A"), Column("B")], rows)


def _flat(found: Savepoint) -> dict[tuple[str, ...], Any]:
    """Every single value, by its name."""
    whole = {name: value for name, value in summary(found).items() if name not in _OF_THE_FOLDER}
    values: dict[tuple[str, ...], Any] = dict(_below((), whole))
    for query in queries(found):
        values.update(_below(("query", str(query.pop("query"))), query))
    return values


def _below(name: tuple[str, ...], values: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found.update(_below((*name, key), value))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found[(*name, key)] = value
    return found


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType]
    return "-" if value is None else str(value)
