"""Prints a savepoint for the commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone

import typer

from tidegate.cli.tables import Column, print_table
from tidegate.operate import SavedOperatorView, SavedQueryView, SavepointDetails, position_lines


def show(found: SavepointDetails) -> None:
    """Print the whole savepoint on the standard output."""
    for name in _OF_THE_WHOLE:
        value = getattr(found, name)
        if value is not None:
            typer.echo(f"{name}: {value}")
    for query in found.queries:
        typer.echo(f"\nquery {query.query}")
        for line in _lines(query):
            typer.echo(f"  {line}")
        _show_operators(query.operators)
    for uid, size in found.ingest_bytes.items():
        typer.echo(f"\ningest log of source {uid}: {size} bytes of lines behind the saved epochs")


_OF_THE_WHOLE = ("path", "id", "format", "job", "job_id", "generation", "at", "claimed_by", "files", "bytes")


def _lines(query: SavedQueryView) -> Iterator[str]:
    yield f"epoch: {query.epoch}"
    for uid, end in query.sources.items():
        for line in position_lines(end):
            yield f"source {uid}: {line}"
    yield f"watermark: {watermark_text(query.watermark_ms)}"
    for uid, epoch in query.sinks.items():
        yield f"sink {uid}: {'no rows yet' if epoch is None else f'newest rows of epoch {epoch}'}"
    for name in ("backend", "partitions", "state_bytes", "fingerprint"):
        value = getattr(query, name)
        yield f"{name}: {'not known' if value is None else value}"


def watermark_text(milliseconds: int) -> str:
    """The time of a watermark. The watermark of a drained query is later than any calendar date."""
    if milliseconds == 0:
        return "none yet"
    try:
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return "the end of time"
    return at.isoformat(timespec="milliseconds")


def _show_operators(operators: Mapping[str, SavedOperatorView]) -> None:
    if not operators:
        return
    typer.echo()
    named = any(each.uid for each in operators.values())
    columns = [Column("operator", number=True), Column("name"), *([Column("uid")] if named else []), Column("stores")]
    columns += [Column(name, number=True) for name in ("partitions", "rows", "bytes")]
    rows = [
        (
            number,
            each.name,
            *([each.uid or "-"] if named else []),
            ", ".join(each.stores),
            str(each.partitions),
            "-" if each.state_rows is None else str(each.state_rows),
            str(each.state_bytes),
        )
        for number, each in operators.items()
    ]
    print_table(columns, rows)
    for number, each in operators.items():
        if each.computes is not None:
            parts = "; ".join(f"{part}: {text}" for part, text in each.computes.items())
            typer.echo(f"operator {number} computes: {parts}")
