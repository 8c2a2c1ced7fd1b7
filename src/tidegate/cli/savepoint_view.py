"""What the commands show of a savepoint."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.cli.tables import Column, print_table
from tidegate.core.errors import TidegateError
from tidegate.core.spark_log import SKIPPED, TOPIC_IDS

if TYPE_CHECKING:  # loaded when used: other commands need not wait for it
    from tidegate.core.records import SavedQuery
    from tidegate.savepoints.folder import Savepoint


def summary(found: Savepoint) -> dict[str, Any]:
    """What it is of, as a whole."""
    record = found.record
    return {
        "path": str(found.folder),
        "id": record.id,
        "format": record.format.value,
        "job": record.job,
        "job_id": record.job_id,
        "generation": record.generation,
        "at": record.at,
        "claimed_by": claimed_by(found),
        "epochs": {query.done.query: query.done.epoch for query in record.queries},
        "files": len(record.files),
        "bytes": found.size_bytes,
    }


def claimed_by(found: Savepoint) -> str | None:
    """The job that goes on from it under its job id, and where; None where nobody has claimed it. A record that cannot
    be read hides neither its savepoint nor any other."""
    from tidegate.savepoints.claim import read_claim

    try:
        claim = read_claim(found)
    except TidegateError as error:
        return f"a record that cannot be read ({error.code}: {error.where})"
    return None if claim is None else f"job {claim.job} in {claim.folder} on {claim.host}"


def queries(found: Savepoint) -> list[dict[str, Any]]:
    """By query: where it is, and what it goes on with."""
    return [
        {
            "query": query.done.query,
            "epoch": query.done.epoch,
            "sources": query.ends,
            "watermark_ms": query.watermark_ms,
            "sinks": {
                uid: query.done.progress[uid].epoch if uid in query.done.progress else None for uid in query.done.sinks
            },
            "backend": query.backend,
            "partitions": query.partitions,
            "operators": {
                str(each.number): {
                    "name": each.name,
                    "uid": each.uid or None,
                    "stores": list(each.stores),
                    "partitions": each.partitions,
                    "computes": _computes(query, each.number),
                    "state_rows": query.done.state_rows.get(str(each.number)),
                    "state_bytes": _state_bytes(found, query.done.query, f"{each.number}/"),
                }
                for each in query.operators
            },
            "state_bytes": _state_bytes(found, query.done.query),
            "fingerprint": query.fingerprint,
        }
        for query in found.record.queries
    ]


def _computes(query: SavedQuery, number: int) -> dict[str, str] | None:
    """By part, what an operator computes; None in a savepoint of an older release."""
    found = (each.compared for each in query.done.fingerprints or () if each.number == number)
    return next(found, None)


def _state_bytes(found: Savepoint, query: str, operator: str = "") -> int:
    state = (f"queries/{query}/spark/state/{operator}", f"queries/{query}/state/{operator}")
    return sum(file.size_bytes for file in found.record.files if file.name.startswith(state))


def log_bytes(found: Savepoint) -> dict[str, int]:
    """By source with an ingest log, the bytes of lines behind the saved epochs that the savepoint holds."""
    sizes: dict[str, int] = {}
    for file in found.record.files:
        root, uid, *_ = file.name.split("/")
        if root == INGEST:
            sizes[uid] = sizes.get(uid, 0) + file.size_bytes
    return sizes


# --- for people --------------------------------------------------------------------------------------------


def show(found: Savepoint) -> None:
    """All of it on the standard output."""
    for name, value in summary(found).items():
        if name != "epochs" and value is not None:
            typer.echo(f"{name}: {value}")
    for query in queries(found):
        typer.echo(f"\nquery {query['query']}")
        for line in _lines(query):
            typer.echo(f"  {line}")
        _show_operators(query["operators"])
    for uid, size in log_bytes(found).items():
        typer.echo(f"\ningest log of source {uid}: {size} bytes of lines behind the saved epochs")


def _lines(query: dict[str, Any]) -> Iterator[str]:
    yield f"epoch: {query['epoch']}"
    for uid, end in query["sources"].items():
        for line in end_lines(end):
            yield f"source {uid}: {line}"
    yield f"watermark: {watermark_text(query['watermark_ms'])}"
    for uid, epoch in query["sinks"].items():
        yield f"sink {uid}: {'no rows yet' if epoch is None else f'newest rows of epoch {epoch}'}"
    for name in ("backend", "partitions", "state_bytes", "fingerprint"):
        yield f"{name}: {'not known' if query[name] is None else query[name]}"


def end_lines(end: str | None) -> list[str]:
    """Where a source ends, as its log has it: by topic and partition, as an entry of the log of its files, or as
    a line of its ingest log."""
    if end is None:
        return ["nothing read yet"]
    match _decoded(end):
        case {"logOffset": int(number)}:
            return [f"entry {number} of the log of its files"]
        case {"log": str(log), "line": int(line)}:
            return [f"line {line} of ingest log {log}"]
        case {**topics} if _are_topics(topics):
            return [f"topic {topic}: {_offsets(topics[topic])}" for topic in topics if topic not in _BESIDE]
        case _:
            return [end]


def watermark_text(milliseconds: int) -> str:
    """The time of a watermark. That of a drained query is behind all that a calendar has."""
    if milliseconds == 0:
        return "none yet"
    try:
        at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return "the end of time"
    return at.isoformat(timespec="milliseconds")


_BESIDE = (TOPIC_IDS, SKIPPED)


def _decoded(end: str) -> Any:
    try:
        return msgspec.json.decode(end)
    except msgspec.DecodeError:
        return None


def _are_topics(found: dict[str, Any]) -> bool:
    topics = [offsets for topic, offsets in found.items() if topic not in _BESIDE]
    return bool(topics) and all(isinstance(offsets, dict) for offsets in topics)


def _offsets(partitions: dict[str, Any]) -> str:
    return ", ".join(f"partition {number} at {partitions[number]}" for number in sorted(partitions, key=_in_order))


def _in_order(partition: str) -> tuple[int, str]:
    return len(partition), partition


def _show_operators(operators: dict[str, dict[str, Any]]) -> None:
    if not operators:
        return
    typer.echo()
    named = any(each["uid"] for each in operators.values())
    columns = [Column("operator", number=True), Column("name"), *([Column("uid")] if named else []), Column("stores")]
    columns += [Column(name, number=True) for name in ("partitions", "rows", "bytes")]
    rows = [
        (
            number,
            each["name"],
            *([each["uid"] or "-"] if named else []),
            ", ".join(each["stores"]),
            str(each["partitions"]),
            "-" if each["state_rows"] is None else str(each["state_rows"]),
            str(each["state_bytes"]),
        )
        for number, each in operators.items()
    ]
    print_table(columns, rows)
    for number, each in operators.items():
        if each["computes"] is not None:
            parts = "; ".join(f"{part}: {text}" for part, text in each["computes"].items())
            typer.echo(f"operator {number} computes: {parts}")
