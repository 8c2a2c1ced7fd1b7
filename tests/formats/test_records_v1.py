"""Records of format 1 are read for ever; torn, altered and newer ones are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.core.errors import TidegateError
from tidegate.core.records import KINDS, decode

FOLDER = Path(__file__).parent / "v1"

SINK = {"job": "wordcount", "job_id": "0f1e2d3c", "generation": 2, "query": "counts", "sink": "counts-table"}
ATTEMPT = {"sink": SINK, "run": 5, "run_token": "a1b2c3d4", "epoch": 41, "task": 1, "task_attempt": 87}
OFFSETS = b'v1\n{"batchWatermarkMs":0}\n{"lines":{"0":17,"1":4}}\n-'
FIELDS: dict[str, dict[str, Any]] = {
    "start": {
        "job_id": "0f1e2d3c",
        "generation": 2,
        "first_epoch": 1,
        "sources": ("lines",),
        "sinks": ("counts-topic", "counts-table"),
        "positions": {"lines": '{"lines":{"0":17,"1":4}}'},
        "fingerprints": None,
    },
    "operators-accepted": {
        "fingerprints": (
            {
                "number": 0,
                "uid": "totals",
                "compared": {"kind": "aggregation", "aggregate functions": "count(v)"},
                "origins": {"aggregate functions": "count(value)"},
                "told": {"watermark delay": "at: 10 seconds"},
            },
        ),
        "at": "2026-01-02T03:04:05+00:00",
        "accepted": ("operator totals: aggregate functions: sum(v) -> count(v)",),
        "once": "0a1b2c3d",
    },
    "savepoint-claim": {
        "job": "wordcount",
        "job_id": "0f1e2d3c",
        "folder": "/checkpoints/wordcount",
        "host": "worker-1",
        "at": "2026-01-02T03:04:05+00:00",
        "token": "",
    },
    "folder-token": {"token": "0f1e2d3c4b5a69788796a5b4c3d2e1f0"},
    "run": {
        "run": 5,
        "token": "a1b2c3d4",
        "host": "worker-1",
        "process": 4711,
        "since": "2026-01-02T03:04:05+00:00",
    },
    "prepared": {
        "epoch": 41,
        "run": 5,
        "committables": (
            {
                "attempt": ATTEMPT,
                "rows": 3,
                "digest": "5d" * 32,
                "handle": {"stage": "t1.db"},
                "journal": {
                    "name": "41/counts-table.r5-a1b2c3d4-t1-a87.arrow",
                    "rows": 3,
                    "size_bytes": 656,
                    "checksum": "sha256:" + "9b" * 32,
                },
            },
            {"attempt": ATTEMPT, "rows": 1, "digest": "6e" * 32, "handle": {}, "journal": None},
        ),
        "start_positions": ('{"lines":{"0":12,"1":4}}', None),
        "offsets": OFFSETS,
        "state_ids": '{"0":[["3fc303c8"],["728fc114"]]}',
        "state_rows": {},
        "operator_uids": {},
        "state_files": (),
    },
    "decided": {
        "epoch": 41,
        "run": 5,
        "prepared_digest": "7f" * 32,
        "offsets": OFFSETS,
        "commits": b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["3fc303c8"],["728fc114"]]}}',
        "state_rows": {},
        "operator_uids": {},
    },
    "done": {"epoch": 41, "run": 5, "prepared_digest": "7f" * 32},
    "sealed": {"epoch": 42},
    "overdue": {"epoch": 42, "run": 6, "seconds": 600.0},
    "finished-through": {"epoch": 41, "sinks": {"counts-table": {"epoch": 40, "digest": "5d" * 32}}},
    "job": {"name": "wordcount", "job_id": "0f1e2d3c", "generation": 2},
    "generation": {"job_id": "0f1e2d3c", "after": 2, "generation": 3},
    "preparation-ended": {"generation": 3, "ready": True, "queries": ("counts",)},
    "job-ended": {"job_id": "0f1e2d3c", "after": 3, "since": "2026-01-02T03:04:05+00:00"},
    "checkpoint": {
        "number": 17,
        "job": "wordcount",
        "job_id": "0f1e2d3c",
        "at": "2026-01-02T03:04:05.678+00:00",
        "queries": (
            {
                "query": "counts",
                "generation": 2,
                "epoch": 41,
                "run": 5,
                "sources": ("lines",),
                "sinks": ("counts-topic", "counts-table"),
                "offsets": OFFSETS,
                "commits": b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["3fc303c8"],["728fc114"]]}}',
                "progress": {"counts-table": {"epoch": 40, "digest": "5d" * 32}},
                "state_rows": {},
                "operator_uids": {},
                "fingerprints": None,
            },
        ),
        "drained": False,
        "held_in": "",
        "held": {},
        "in_flight": {},
        "alignment": "",
        "taken": {},
    },
    "channel-begin": {
        "generation": 2,
        "topic": "words",
        "topic_id": "UWm8qYtVQ3OpHtQ3PzN5eg",
        "offsets": {"0": 17, "1": 4},
    },
    "channel-epoch": {
        "number": 41,
        "oldest": 3,
        "job_id": "0f1e2d3c",
        "query": "counts",
        "generation": 2,
        "epoch": 44,
        "digest": "cafe",
        "committables": ("beef",),
        "rows": (
            {
                "part": "2.0",
                "begin": 100,
                "journal": {
                    "name": "44/r5-a1b2c3d4-t1-a87.00.arrow",
                    "rows": 7,
                    "size_bytes": 512,
                    "checksum": "sha256:f00d",
                },
            },
        ),
        "ends": {"1.0": 90, "2.0": 107},
    },
    "closing": {"job_id": "0f1e2d3c", "since": "2026-01-02T03:04:05+00:00"},
    "drain": {"job_id": "0f1e2d3c", "since": "2026-01-02T03:04:05+00:00", "ended": "2026-01-02T03:04:06+00:00"},
    "noted-folder": {"folder": "hdfs://namenode:8020/jobs"},
    "savepoint": {
        "id": "before-the-upgrade",
        "format": "native",
        "job": "wordcount",
        "job_id": "0f1e2d3c",
        "generation": 2,
        "at": "2026-01-02T03:04:05.678+00:00",
        "queries": (
            {
                "done": {
                    "query": "counts",
                    "generation": 2,
                    "epoch": 41,
                    "run": 5,
                    "sources": ("lines", "more"),
                    "sinks": ("counts-table",),
                    "offsets": OFFSETS,
                    "commits": b'v2\n{"nextBatchWatermarkMs":7000}',
                    "progress": {},
                    "state_rows": {},
                    "operator_uids": {},
                    "fingerprints": None,
                },
                "ends": {"lines": '{"lines":{"0":17,"1":4}}', "more": None},
                "watermark_ms": 7000,
                "backend": "rocksdb",
                "partitions": 2,
                "operators": (
                    {"number": 0, "name": "stateStoreSave", "stores": ("default",), "partitions": 2, "uid": ""},
                ),
                "fingerprint": "8a" * 32,
            },
        ),
        "files": ({"name": "queries/counts/spark/offsets/41", "size_bytes": 52, "sha256": "9b" * 32},),
    },
    "restored": {
        "job_id": "0f1e2d3c",
        "generation": 3,
        "savepoint": "savepoints/savepoint-0f1e2d3c-nightly",
        "digest": "7f" * 32,
        "at": "2026-01-02T03:04:05.678+00:00",
        "epochs": {"counts": 41},
        "left_behind": ("lines",),
        "rewind": "back-to-monday",
        "renamed": {},
        "program": (),
        "in_flight": {},
    },
}
TYPES: dict[str, Any] = {name: kind for kind, name in KINDS.items()}

every_kind = pytest.mark.parametrize("name", sorted(TYPES))


@every_kind
def test_a_record_of_format_1_is_read_field_by_field(name: str):
    record = decode(TYPES[name], stored(name), where=name)
    assert msgspec.to_builtins(record, builtin_types=(bytes,)) == FIELDS[name]


@every_kind
def test_every_prefix_of_a_record_is_refused(name: str):
    data = stored(name)
    codes = {code_of(name, data[:length]) for length in range(len(data))}
    assert codes == {"TG-RECORD-CORRUPT"}


@every_kind
def test_every_flipped_bit_of_a_body_is_refused(name: str):
    data = stored(name)
    body = data.index(b"\n") + 1
    codes = {code_of(name, flipped(data, place, bit)) for place in range(body, len(data)) for bit in range(8)}
    assert codes == {"TG-RECORD-CORRUPT"}


@every_kind
def test_no_flipped_bit_of_a_header_changes_what_is_read(name: str):
    data = stored(name)
    for place in range(data.index(b"\n") + 1):
        for bit in range(8):
            try:
                record = decode(TYPES[name], flipped(data, place, bit), where=name)
            except TidegateError:
                continue
            assert record == decode(TYPES[name], data, where=name)


@every_kind
def test_a_record_of_a_later_format_is_refused_as_newer(name: str):
    assert code_of(name, stored(name).replace(b" 1 sha256:", b" 2 sha256:", 1)) == "TG-RECORD-NEWER"


@every_kind
def test_a_record_is_not_taken_for_one_of_another_kind(name: str):
    for other in TYPES:
        if other != name:
            assert code_of(other, stored(name)) == "TG-RECORD-CORRUPT"


@every_kind
def test_the_error_names_the_file(name: str):
    with pytest.raises(TidegateError, match=r"where: +ledger/a-file"):
        decode(TYPES[name], b"", where="ledger/a-file")


def stored(name: str) -> bytes:
    return (FOLDER / f"{name}.record").read_bytes()


def flipped(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def code_of(name: str, data: bytes) -> str:
    with pytest.raises(TidegateError) as caught:
        decode(TYPES[name], data, where=name)
    return caught.value.code
