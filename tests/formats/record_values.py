"""The fixed values behind the records of format 1; `python -m tests.formats.record_values` writes missing files."""

from __future__ import annotations

from pathlib import Path

from tidegate.core.records import (
    KINDS,
    Attempt,
    ChannelBegin,
    ChannelEpoch,
    ChannelKey,
    ChannelRows,
    CheckpointRecord,
    Closing,
    Committable,
    Decided,
    Done,
    DoneEpoch,
    Drain,
    FinishedThrough,
    FolderToken,
    GenerationOpened,
    JobEnded,
    JobRecord,
    JournalRef,
    NotedFolder,
    OperatorFingerprint,
    OperatorsAccepted,
    Overdue,
    PreparationEnded,
    Prepared,
    Restored,
    Run,
    SavedFile,
    SavedQuery,
    SavepointClaim,
    SavepointFormat,
    SavepointRecord,
    Sealed,
    SinkIdentity,
    SinkProgress,
    Start,
    StatefulOperator,
    encode,
)

FOLDER = Path(__file__).parent / "v1"

SINK = SinkIdentity(job="wordcount", job_id="0f1e2d3c", generation=2, query="counts", sink="counts-table")
ATTEMPT = Attempt(sink=SINK, run=5, run_token="a1b2c3d4", epoch=41, task=1, task_attempt=87)
JOURNAL = JournalRef(
    name="41/counts-table.r5-a1b2c3d4-t1-a87.arrow", rows=3, size_bytes=656, checksum="sha256:" + "9b" * 32
)

RECORDS = (
    Start(
        job_id="0f1e2d3c",
        generation=2,
        first_epoch=1,
        sources=("lines",),
        sinks=("counts-topic", "counts-table"),
        positions={"lines": '{"lines":{"0":17,"1":4}}'},
    ),
    OperatorsAccepted(
        fingerprints=(
            OperatorFingerprint(
                number=0,
                uid="totals",
                compared={"kind": "aggregation", "aggregate functions": "count(v)"},
                origins={"aggregate functions": "count(value)"},
                told={"watermark delay": "at: 10 seconds"},
            ),
        ),
        at="2026-01-02T03:04:05+00:00",
        accepted=("operator totals: aggregate functions: sum(v) -> count(v)",),
        once="0a1b2c3d",
    ),
    Run(run=5, token="a1b2c3d4", host="worker-1", process=4711, since="2026-01-02T03:04:05+00:00"),
    Prepared(
        epoch=41,
        run=5,
        committables=(
            Committable(attempt=ATTEMPT, rows=3, digest="5d" * 32, handle={"stage": "t1.db"}, journal=JOURNAL),
            Committable(attempt=ATTEMPT, rows=1, digest="6e" * 32),
        ),
        start_positions=('{"lines":{"0":12,"1":4}}', None),
        offsets=b'v1\n{"batchWatermarkMs":0}\n{"lines":{"0":17,"1":4}}\n-',
        state_ids='{"0":[["3fc303c8"],["728fc114"]]}',
    ),
    Decided(
        epoch=41,
        run=5,
        prepared_digest="7f" * 32,
        offsets=b'v1\n{"batchWatermarkMs":0}\n{"lines":{"0":17,"1":4}}\n-',
        commits=b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["3fc303c8"],["728fc114"]]}}',
    ),
    Sealed(epoch=42),
    Done(epoch=41, run=5, prepared_digest="7f" * 32),
    Overdue(epoch=42, run=6, seconds=600.0),
    FinishedThrough(epoch=41, sinks={"counts-table": SinkProgress(epoch=40, digest="5d" * 32)}),
    JobRecord(name="wordcount", job_id="0f1e2d3c", generation=2),
    GenerationOpened(job_id="0f1e2d3c", after=2, generation=3),
    PreparationEnded(generation=3, ready=True, queries=("counts",)),
    JobEnded(job_id="0f1e2d3c", after=3, since="2026-01-02T03:04:05+00:00"),
    CheckpointRecord(
        number=17,
        job="wordcount",
        job_id="0f1e2d3c",
        at="2026-01-02T03:04:05.678+00:00",
        queries=(
            DoneEpoch(
                query="counts",
                generation=2,
                epoch=41,
                run=5,
                sources=("lines",),
                sinks=("counts-topic", "counts-table"),
                offsets=b'v1\n{"batchWatermarkMs":0}\n{"lines":{"0":17,"1":4}}\n-',
                commits=b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["3fc303c8"],["728fc114"]]}}',
                progress={"counts-table": SinkProgress(epoch=40, digest="5d" * 32)},
            ),
        ),
    ),
    ChannelBegin(generation=2, topic="words", topic_id="UWm8qYtVQ3OpHtQ3PzN5eg", offsets={"0": 17, "1": 4}),
    ChannelEpoch(
        number=41,
        oldest=3,
        job_id="0f1e2d3c",
        query="counts",
        generation=2,
        epoch=44,
        digest="cafe",
        committables=("beef",),
        rows=(
            ChannelRows(
                part="2.0",
                begin=100,
                journal=JournalRef(
                    name="44/r5-a1b2c3d4-t1-a87.00.arrow", rows=7, size_bytes=512, checksum="sha256:f00d"
                ),
            ),
        ),
        ends={"1.0": 90, "2.0": 107},
    ),
    Closing(job_id="0f1e2d3c", since="2026-01-02T03:04:05+00:00"),
    SavepointClaim(
        job="wordcount",
        job_id="0f1e2d3c",
        folder="/checkpoints/wordcount",
        host="worker-1",
        at="2026-01-02T03:04:05+00:00",
    ),
    FolderToken(token="0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
    NotedFolder(folder="hdfs://namenode:8020/jobs"),
    Drain(job_id="0f1e2d3c", since="2026-01-02T03:04:05+00:00", ended="2026-01-02T03:04:06+00:00"),
    SavepointRecord(
        id="before-the-upgrade",
        format=SavepointFormat.NATIVE,
        job="wordcount",
        job_id="0f1e2d3c",
        generation=2,
        at="2026-01-02T03:04:05.678+00:00",
        queries=(
            SavedQuery(
                done=DoneEpoch(
                    query="counts",
                    generation=2,
                    epoch=41,
                    run=5,
                    sources=("lines", "more"),
                    sinks=("counts-table",),
                    offsets=b'v1\n{"batchWatermarkMs":0}\n{"lines":{"0":17,"1":4}}\n-',
                    commits=b'v2\n{"nextBatchWatermarkMs":7000}',
                ),
                ends={"lines": '{"lines":{"0":17,"1":4}}', "more": None},
                watermark_ms=7000,
                backend="rocksdb",
                partitions=2,
                operators=(StatefulOperator(number=0, name="stateStoreSave", stores=("default",), partitions=2),),
                fingerprint="8a" * 32,
            ),
        ),
        files=(SavedFile(name="queries/counts/spark/offsets/41", size_bytes=52, sha256="9b" * 32),),
    ),
    Restored(
        job_id="0f1e2d3c",
        generation=3,
        savepoint="savepoints/savepoint-0f1e2d3c-nightly",
        digest="7f" * 32,
        at="2026-01-02T03:04:05.678+00:00",
        epochs={"counts": 41},
        left_behind=("lines",),
        rewind="back-to-monday",
    ),
)

KEYED = ChannelEpoch(
    number=42,
    oldest=3,
    job_id="0f1e2d3c",
    query="counts",
    generation=2,
    epoch=45,
    digest="cafe",
    committables=("beef",),
    rows=(
        ChannelRows(
            part="words.2.5",
            begin=0,
            journal=JournalRef(
                name="45/r5-a1b2c3d4-t1-a88.00.p5.arrow", rows=7, size_bytes=512, checksum="sha256:f00d"
            ),
        ),
    ),
    ends={"words.2.0": 107, "words.2.5": 7},
    key=ChannelKey(column="word", partitions=8),
)
"""An epoch of a keyed channel: it has a field more than those of other channels."""


def write_missing() -> None:
    """A file that stands is never written again: it is what a released version wrote."""
    FOLDER.mkdir(exist_ok=True)
    for record in RECORDS:
        path = FOLDER / f"{KINDS[type(record)]}.record"
        if not path.exists():
            path.write_bytes(encode(record))


if __name__ == "__main__":
    write_missing()
