"""What the commands show of a savepoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # loaded when used: other commands need not wait for it
    from tidegate.checkpoints.savepoint_folder import Savepoint


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
        "epochs": {query.done.query: query.done.epoch for query in record.queries},
        "files": len(record.files),
        "bytes": found.size_bytes,
    }


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
            "operators": [f"{each.number}: {each.name} ({', '.join(each.stores)})" for each in query.operators],
            "state_bytes": _state_bytes(found, query.done.query),
            "fingerprint": query.fingerprint,
        }
        for query in found.record.queries
    ]


def _state_bytes(found: Savepoint, query: str) -> int:
    state = (f"queries/{query}/spark/state/", f"queries/{query}/state/")
    return sum(file.size_bytes for file in found.record.files if file.name.startswith(state))
