"""Checkpoints as Flink counts them, savepoints and programs, as the page sees them: made by hand."""

from __future__ import annotations

from tests.web.canned import NOW, PATH

CHECKPOINTS = {
    "counts": {"restored": 1, "total": 10_003, "in_progress": 1, "completed": 10_000, "failed": 2},
    "latest": {
        "completed": None,
        "savepoint": {
            "latest_ack_timestamp": (NOW - 290) * 1000,
            "end_to_end_duration": 2_140,
            "savepointFormat": "NATIVE",
            "external_path": PATH,
        },
        "failed": {
            "failure_timestamp": (NOW - 265) * 1000,
            "failure_message": "TG-EXECUTOR-LOST: an executor was killed",
        },
        "restored": None,
    },
}
CONFIG = {
    "mode": "exactly_once",
    "interval": 1000,
    "timeout": 600_000,
    "min_pause": 0,
    "max_concurrent": 1,
    "externalization": {"enabled": True, "delete_on_cancellation": False},
    "state_backend": "rocksdb",
    "checkpoint_storage": "hdfs://store/checkpoints",
    "unaligned_checkpoints": False,
    "tolerable_failed_checkpoints": 0,
    "aligned_checkpoint_timeout": 0,
    "checkpoints_after_tasks_finish": True,
}


def savepoint(path: str = PATH, epoch: int = 18_150) -> dict[str, object]:
    return {
        "path": path,
        "id": "4f2a91",
        "job": "wordcount",
        "job_id": "0f1e2d3c",
        "at": "2026-11-14T09:02:11Z",
        "format": "native",
        "epochs": {"words": epoch + 2, "counts": epoch},
        "bytes": 1_284_220_110,
        "files": 41,
        "generation": 2,
        "claimed_by": None,
    }


DETAILS = {
    **savepoint(),
    "queries": [
        {
            "query": "counts",
            "epoch": 18_150,
            "state_bytes": 1_200_000_000,
            "backend": "rocksdb",
            "partitions": 8,
            "sources": {"words": '{"0":1200}'},
            "operators": {
                "0": {"uid": "count", "name": "stateStoreSave", "state_rows": 91_000, "state_bytes": 1_200_000_000}
            },
        }
    ],
}
JARS = {
    "address": "",
    "files": [
        {
            "id": "wordcount.py",
            "name": "wordcount.py",
            "uploaded": (NOW - 7_200) * 1000,
            "entry": [{"name": "main", "description": "Counts words of a topic"}],
        },
        {"id": "clicks.py", "name": "clicks.py", "uploaded": 0, "entry": []},
    ],
}
