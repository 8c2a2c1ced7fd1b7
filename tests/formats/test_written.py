"""What this release writes, byte for byte: `written/` holds every JSON format of tidegate's own with fixed values.

A change of these bytes is a change of a format, and is made on purpose: `python -m tests.formats.test_written` writes
the files again.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.formats.record_values import KEYED, RECORDS
from tidegate.core.guarantees import Guarantee, Limit
from tidegate.core.levels import Level
from tidegate.core.records import KINDS, ChannelEpoch, SavepointFormat, SinkIdentity, decode, encode
from tidegate.operate.beat import Beat, Incarnation, JobState, QueryBeat, ShownSetting, read_beat, write_beat
from tidegate.operate.checkpoints_history import CheckpointsHistory, read_checkpoints
from tidegate.operate.control import Answer, Desk, Kind, Outcome, Request
from tidegate.operate.copy_progress import CopyProgress, read_progress, write_progress
from tidegate.operate.done_checkpoint import DoneCheckpoint, TimedPhase
from tidegate.operate.failures import Failure, add_failure, read_failures
from tidegate.operate.guarantees import read_guarantees, write_guarantees
from tidegate.operate.milestones import Milestone, MilestoneKind, add_milestones, read_milestones
from tidegate.operate.sinks import DescribedSink, Sinks, write_sinks
from tidegate.operate.sources import DescribedSource, read_sources, write_sources
from tidegate.sinks.marks import Marks
from tidegate.sinks.standing import Entry
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.supervise.application_attempts import AttemptRecords, AttemptsSoFar
from tidegate.supervise.restart import Restarted
from tidegate.supervise.restart_history import RestartsSoFar

FOLDER = Path(__file__).parent / "written"
AT = 1_767_323_045.678

SINK = SinkIdentity(job="wordcount", job_id="0f1e2d3c", generation=2, query="counts", sink="table")
DESCRIBED_SINK = DescribedSink(
    query="counts",
    uid="table",
    level=Level.EXACTLY_ONCE,
    keeps_evidence=True,
    target={"type": "kafka", "topic": "counts", "options": {"linger.ms": "7"}, "left_out": ["sasl.password"]},
)
DESCRIBED_SOURCE = DescribedSource(uid="lines", told="topic lines", target={"type": "kafka", "partitions": {"a": None}})
GUARANTEE = Guarantee(
    query="counts", sink="table", level=Level.EXACTLY_ONCE, limited_by=Limit.NOTHING, where="", why="no row is missing"
)
REQUEST = Request(
    id="nightly",
    kind=Kind.SAVEPOINT,
    to=Incarnation(host="worker-1", process=4711, started_at=AT),
    asked_at=AT,
    asked_by="ann",
    into="/savepoints",
    format=SavepointFormat.CANONICAL,
)
ANSWER = Answer(
    id="nightly", kind=Kind.SAVEPOINT, outcome=Outcome.DONE, detail="", at=AT, epochs={"counts": 41}, savepoint="/s/1"
)
ENTRY = Entry(
    job_id="0f1e2d3c",
    generation=2,
    epoch=41,
    digest="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    committables=(),
)
BEAT = Beat(
    job="wordcount",
    job_id="0f1e2d3c",
    state=JobState.RUNNING,
    host="worker-1",
    process=4711,
    started_at=AT,
    at=AT,
    progress_at=AT,
    settings=(ShownSetting(name="checkpointing.interval", value="10s", origin="default"),),
    queries=(QueryBeat(uid="counts", run=5, epoch=41, finished=40, rows=17, rows_per_second=1.5),),
    application="application_1767323045678_0001",
)
FAILURE = Failure(
    at=AT,
    code="TG-EPOCH-FAILED",
    what="it broke\nand said so",
    where="job wordcount",
    remedy="start again",
    query="counts",
    epoch=41,
    run=5,
    details={"row": "(1, 2)"},
    restart_in_seconds=1.0,
    number=1,
    restarts=1,
    of_epochs=1,
)
ATTEMPTS = AttemptsSoFar(
    ended=1,
    restarts=RestartsSoFar(past=(Restarted(at=AT, pause=1.0),), has_run=True, next_start=AT + 1, taken_since=AT),
    failed_epochs={"counts": 1},
    failure=FAILURE,
    resumes="0f1e2d3c",
)
CHECKPOINT = DoneCheckpoint(
    query="counts",
    epoch=41,
    run=5,
    at=AT,
    duration_ms=12.5,
    rows=17,
    aborted=1,
    committed=2,
    phases={TimedPhase.COMPUTE: 7.5, TimedPhase.PRE_COMMIT: 0.25},
    read=23,
)
MILESTONES = [
    Milestone(at=AT, kind=MilestoneKind.SKIP, text="topic lines", query="counts", epoch=41, source="lines"),
    Milestone(at=AT, kind=MilestoneKind.START, text="the job was started"),
]
CHECKPOINTS = [replace(CHECKPOINT, number=2), replace(CHECKPOINT, number=1)]
PROGRESS = CopyProgress(copied_bytes=17, total_bytes=1_000)


def sinks(folder: Path) -> None:
    write_sinks(open_storage(folder), [DESCRIBED_SINK], 1.5)
    found = Sinks(open_storage(folder))
    assert (found.all(), found.interval_seconds) == ([DESCRIBED_SINK], 1.5)


def sources(folder: Path) -> None:
    write_sources(open_storage(folder), [DESCRIBED_SOURCE])
    assert read_sources(open_storage(folder)) == (DESCRIBED_SOURCE,)


def guarantees(folder: Path) -> None:
    write_guarantees(open_storage(folder), [GUARANTEE])
    assert read_guarantees(open_storage(folder)) == (GUARANTEE,)


def request(folder: Path) -> None:
    Desk(folder).ask(REQUEST)
    assert Desk(folder).standing("nightly") == REQUEST


def answer(folder: Path) -> None:
    Desk(folder).answer(ANSWER)
    assert Desk(folder).answer_to("nightly") == ANSWER


def mark(folder: Path) -> None:
    Marks(folder, "claim").put(SINK, ENTRY)
    assert Marks(folder, "claim").newest(SINK) == ENTRY


def beat(folder: Path) -> None:
    write_beat(folder, BEAT)
    assert read_beat(folder) == BEAT


def failure(folder: Path) -> None:
    add_failure(folder, FAILURE)
    assert read_failures(folder) == [FAILURE]


def checkpoints(folder: Path) -> None:
    CheckpointsHistory(folder).add([CHECKPOINT, CHECKPOINT])
    assert read_checkpoints(folder) == CHECKPOINTS


def milestones(folder: Path) -> None:
    add_milestones(folder, MILESTONES)
    assert read_milestones(folder) == MILESTONES[::-1]


def restarts(folder: Path) -> None:
    records = AttemptRecords(Folder.of(folder), "application_1767323045678_0001")
    assert records.put(1, ATTEMPTS)
    assert records.newest() == (1, ATTEMPTS)


def has_run(folder: Path) -> None:
    records = AttemptRecords(Folder.of(folder), "application_1767323045678_0001")
    records.has_run("0f1e2d3c")
    assert records.newest() == (0, AttemptsSoFar(restarts=RestartsSoFar(has_run=True), resumes="0f1e2d3c"))


def progress(folder: Path) -> None:
    write_progress(folder, "nightly", PROGRESS)
    assert read_progress(folder, "nightly") == PROGRESS


WRITERS: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        *(sinks, sources, guarantees, request, answer, mark),
        *(beat, failure, restarts, has_run, checkpoints, milestones, progress),
    )
}
"""By format: writes one file into an empty folder, and reads it back."""


def bytes_of(name: str, folder: Path) -> bytes:
    """The one file that the writer leaves."""
    WRITERS[name](folder)
    (written,) = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return written.read_bytes()


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_written_as_ever(name: str, tmp_path: Path) -> None:
    assert bytes_of(name, tmp_path) == (FOLDER / f"{name}.json").read_bytes()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: KINDS[type(record)])
def test_a_record_is_written_as_ever(record: object) -> None:
    kind = next(each for each in KINDS if isinstance(record, each))
    expected = (FOLDER / f"{KINDS[kind]}.record").read_bytes()
    assert decode(kind, expected, "") == record
    assert encode(decode(kind, expected, "")) == expected


def test_an_epoch_of_a_keyed_channel_is_written_as_ever() -> None:
    expected = (FOLDER / f"{_KEYED}.record").read_bytes()
    assert (decode(ChannelEpoch, expected, ""), encode(KEYED)) == (KEYED, expected)


def write() -> None:
    """Write every file as this release does."""
    FOLDER.mkdir(exist_ok=True)
    for name in WRITERS:
        with tempfile.TemporaryDirectory() as folder:
            (FOLDER / f"{name}.json").write_bytes(bytes_of(name, Path(folder)))
    for record in RECORDS:
        (FOLDER / f"{KINDS[type(record)]}.record").write_bytes(encode(record))
    (FOLDER / f"{_KEYED}.record").write_bytes(encode(KEYED))


_KEYED = "channel-epoch-keyed"


if __name__ == "__main__":
    write()


def test_a_checkpoint_that_was_written_before_phases_or_rows_shown_again_were_noted_is_read(tmp_path: Path) -> None:
    """Each line is one of a release: without phases, and without rows shown again."""
    older = replace(CHECKPOINT, committed=0, phases={}, read=None)
    line = b'{"query":"counts","epoch":41,"run":5,"at":%b,"duration_ms":12.5,"rows":17,"aborted":1,"redone":0%b}\n'
    (tmp_path / "history" / "checkpoints").mkdir(parents=True)
    lines = [line % (str(AT).encode(), more) for more in (b"", b',"shown_again":0')]
    (tmp_path / "history" / "checkpoints" / "1.jsonl").write_bytes(b"".join(lines))
    assert read_checkpoints(tmp_path) == [older, older]


def test_a_failure_that_was_written_before_failures_were_counted_is_read(tmp_path: Path) -> None:
    failure(tmp_path)
    [file] = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_bytes(re.sub(rb',"number":.*', b"}", file.read_bytes()))
    assert read_failures(tmp_path) == [replace(FAILURE, restarts=0, of_epochs=0)]
