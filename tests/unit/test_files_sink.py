"""The file sink beyond the contract: names, claims, renames that break off, power losses."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.fs_recorder import Event, FsRecorder, in_a_killed_child
from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt, Committable, Evidence, Outcome
from tidegate.sinks import marks
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.files.local_place import LocalPlace
from tidegate.sinks.files.names import final_name
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.standing import Standing
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from


def plan(schema: pa.Schema = SCHEMA, *, mode: str = "append", local_master: bool = True) -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=schema, mode=mode, local_master=local_master, read_journal=lambda _: [])


def opened(path: Path, *, format: str = "json") -> FileSink:
    sink = FileSink("numbers", path, format=format)
    sink.open(plan())
    return sink


def prepared(sink: FileSink, attempt: Attempt | None = None, batch: pa.RecordBatch | None = None) -> Committable:
    transaction = sink.begin(attempt or attempt_of())
    transaction.write(batch or rows_from(0, 2))
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


def outcomes(sink: FileSink, *committables: Committable) -> list[Outcome]:
    return [answer.outcome for answer in sink.commit(committables)]


def local(sink: FileSink) -> LocalPlace:
    assert isinstance(sink.place, LocalPlace)
    return sink.place


def staged(sink: FileSink, committable: Committable) -> Path:
    return local(sink).files.file(committable.attempt)


def visible(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if not file.name.startswith("."))


# --- names -------------------------------------------------------------------------------------------------


def test_a_committed_file_says_whose_it_is(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    assert outcomes(sink, prepared(sink, attempt_of(epoch=12, task=3))) == [Outcome.COMMITTED]
    (name,) = visible(tmp_path)
    assert name.startswith("orders-5f0c-g1-e000000000012-t00003-")
    assert name.endswith(".json")


def test_a_jobs_name_never_hides_a_file_from_readers() -> None:
    attempt = attempt_of()
    hidden = msgspec.structs.replace(attempt, sink=msgspec.structs.replace(IDENTITY, job="_../.täglich"))
    assert final_name(hidden, ".json").startswith("t-glich-5f0c-")


def test_a_job_that_has_moved_to_another_name_is_found_under_both_and_forgotten_under_both(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    moved = msgspec.structs.replace(IDENTITY, job="moved", generation=2)
    assert outcomes(sink, prepared(sink, attempt_of(epoch=5))) == [Outcome.COMMITTED]
    further = msgspec.structs.replace(attempt_of(epoch=6), sink=moved)
    assert outcomes(sink, prepared(sink, further)) == [Outcome.COMMITTED]
    for identity in (IDENTITY, moved):
        position = sink.position(identity)
        assert position is not None
        assert (position.generation, position.epoch) == (2, 6)
    assert outcomes(sink, prepared(sink, attempt_of(epoch=7))) == [Outcome.UNKNOWN], "its old driver, still alive"
    assert sink.position(msgspec.structs.replace(moved, job="third", job_id="another")) is None
    sink.forget(moved)
    assert sink.position(IDENTITY) is None


def test_no_readers_pattern_matches_what_is_hidden(tmp_path: Path) -> None:
    for format in ("json", "parquet"):
        sink = opened(tmp_path, format=format)
        prepared(sink, attempt_of(epoch=1))
        sink.commit([prepared(sink, attempt_of(epoch=0))])
        hidden = [file for file in (tmp_path / ".tidegate").rglob("*") if file.is_file()]
        assert {file.suffix for file in hidden} == {".staged", ".claim"}
        shutil.rmtree(tmp_path / ".tidegate")


def test_two_sinks_of_one_task_share_a_folder(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    other = msgspec.structs.replace(attempt_of(), sink=msgspec.structs.replace(IDENTITY, sink="other"))
    ours, theirs = prepared(sink), prepared(sink, other)
    assert outcomes(sink, ours) == [Outcome.COMMITTED]
    assert outcomes(sink, theirs) == [Outcome.COMMITTED]
    assert len(visible(tmp_path)) == 2


def test_uids_with_dots_do_not_share_a_stage(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    first = msgspec.structs.replace(IDENTITY, query="a.b", sink="c")
    second = msgspec.structs.replace(IDENTITY, query="a", sink="b.c")
    committable = prepared(sink, msgspec.structs.replace(attempt_of(), sink=first))
    sink.clean(second, 10)
    assert staged(sink, committable).exists()


# --- evidence and claims -----------------------------------------------------------------------------------


def test_visible_files_may_be_compacted_at_any_time(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink, attempt_of(epoch=4))
    sink.commit([committable])
    position = sink.position(IDENTITY)
    for name in visible(tmp_path):
        (tmp_path / name).unlink()
    assert sink.position(IDENTITY) == position
    assert outcomes(sink, committable) == [Outcome.ALREADY]
    assert sink.evidence(committable) is Evidence.PRESENT
    sink.clean(IDENTITY, 4)
    assert sink.evidence(committable) is Evidence.UNKNOWN
    assert outcomes(sink, committable) == [Outcome.UNKNOWN]
    assert visible(tmp_path) == []


def test_after_clean_up_the_file_itself_is_the_proof(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink)
    sink.commit([committable])
    sink.clean(IDENTITY, 0)
    assert sink.evidence(committable) is Evidence.PRESENT
    (file,) = tmp_path.glob("*.json")
    file.write_text(file.read_text().replace("word", "WORD"))
    assert sink.evidence(committable) is Evidence.UNKNOWN


def test_a_stage_that_vanished_before_any_claim_was_never_committed(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink)
    staged(sink, committable).unlink()
    assert sink.evidence(committable) is Evidence.ABSENT
    assert outcomes(sink, committable) == [Outcome.LOST]


@pytest.mark.parametrize("vanished", ["the file", "its folder"])
def test_at_least_once_what_vanished_before_it_was_shown_is_lost(tmp_path: Path, vanished: str) -> None:
    sink = opened(tmp_path / "out")
    committable = prepared(sink)
    file = staged(sink, committable)
    file.unlink() if vanished == "the file" else shutil.rmtree(file.parent)
    assert [answer.outcome for answer in sink.commit_straight([committable])] == [Outcome.LOST]


def test_at_least_once_a_file_that_was_shown_is_not_lost_when_it_is_asked_for_again(tmp_path: Path) -> None:
    sink = opened(tmp_path / "out")
    committable = prepared(sink)
    asked = [sink.commit_straight([committable])[0].outcome for _ in range(2)]
    assert asked == [Outcome.COMMITTED, Outcome.ALREADY]


def test_without_its_hidden_folder_nothing_can_be_told(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink)
    shutil.rmtree(tmp_path / ".tidegate")
    assert sink.evidence(committable) is Evidence.UNKNOWN


@pytest.mark.parametrize(("damage", "told"), [(b"", "bytes instead of"), (b"x", "another checksum")])
def test_a_torn_or_altered_stage_is_lost_and_its_siblings_stay_invisible(
    tmp_path: Path, damage: bytes, told: str
) -> None:
    sink = opened(tmp_path)
    tasks = [prepared(sink, attempt_of(task=task)) for task in range(2)]
    file = staged(sink, tasks[1])
    file.write_bytes(file.read_bytes()[:-1] + damage)
    answers = sink.commit(tasks)
    assert [answer.outcome for answer in answers] == [Outcome.RETRY, Outcome.LOST]
    assert told in answers[1].detail
    assert visible(tmp_path) == []


def test_a_commit_that_broke_off_between_two_renames_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path)
    tasks = [prepared(sink, attempt_of(task=task)) for task in range(2)]
    with monkeypatch.context() as patch:
        FsRecorder(patch, below=tmp_path).fail("rename", errno.EIO, named="-t1-")
        assert outcomes(sink, *tasks) == [Outcome.RETRY] * 2
    assert len(visible(tmp_path)) == 1
    assert sink.evidence(tasks[0]) is Evidence.PRESENT
    assert sink.evidence(tasks[1]) is Evidence.ABSENT
    assert outcomes(sink, *tasks) == [Outcome.ALREADY, Outcome.COMMITTED]


def test_a_stage_that_was_torn_between_claim_and_rename_is_lost(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink)
    local(sink).claims.claim([committable])
    staged(sink, committable).write_bytes(b"")
    assert outcomes(sink, committable) == [Outcome.LOST]
    assert visible(tmp_path) == []


def test_two_timelines_that_prepared_side_by_side_cannot_both_be_seen(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    ours, theirs = prepared(sink, attempt_of(run=1)), prepared(sink, attempt_of(run=2))
    assert local(sink).claims.claim([theirs]) is Standing.SAME  # and dies before its first rename
    assert local(sink).claims.claim([ours]) is Standing.OTHER  # looked at the same moment, came second
    assert outcomes(sink, ours) == [Outcome.UNKNOWN]
    assert sink.evidence(ours) is Evidence.OTHER
    assert visible(tmp_path) == []
    assert outcomes(sink, theirs) == [Outcome.COMMITTED]


def test_a_stale_finisher_renames_nothing(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    stale = prepared(sink, attempt_of(epoch=1))
    sink.commit([prepared(sink, attempt_of(epoch=2))])
    (answer,) = sink.commit([stale])
    assert answer.outcome is Outcome.UNKNOWN
    assert "a later one is there" in answer.detail
    assert len(visible(tmp_path)) == 1


def test_only_the_newest_claims_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "KEPT", 3)
    sink = opened(tmp_path)
    epochs = [prepared(sink, attempt_of(epoch=epoch)) for epoch in range(8, 13)]
    for committable in epochs:
        assert outcomes(sink, committable) == [Outcome.COMMITTED]
    kept = {file.name for file in (tmp_path / ".tidegate").rglob("*.claim")}
    assert kept == {"g1-e10.claim", "g1-e11.claim", "g1-e12.claim"}
    assert outcomes(sink, epochs[0]) == [Outcome.ALREADY]


def test_what_a_killed_claim_leaves_goes_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = opened(tmp_path)
    assert outcomes(sink, prepared(sink, attempt_of(epoch=8))) == [Outcome.COMMITTED]
    (claim,) = (tmp_path / ".tidegate").rglob("*.claim")
    committable = prepared(sink, attempt_of(epoch=9))
    disk = FsRecorder(monkeypatch, below=claim.parent)
    in_a_killed_child(disk, 2, lambda: local(sink).claims.claim([committable]))
    assert len(list(claim.parent.iterdir())) == 2
    opened(tmp_path)
    assert list(claim.parent.iterdir()) == [claim]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"format": 1, "entry": null}', b'{"format": 1, "entry": {"digest": "\xe6"}}']
)
def test_a_damaged_claim_is_no_guess(tmp_path: Path, damage: bytes) -> None:
    sink = opened(tmp_path)
    sink.commit([prepared(sink)])
    (claim,) = (tmp_path / ".tidegate").rglob("*.claim")
    claim.write_bytes(damage)
    with pytest.raises(TidegateError, match="TG-RECORD-CORRUPT"):
        sink.position(IDENTITY)


def test_a_claim_of_a_newer_release_is_left_to_it(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.commit([prepared(sink)])
    (claim,) = (tmp_path / ".tidegate").rglob("*.claim")
    claim.write_text(claim.read_text().replace('"format":1', '"format":2,"more":0'))
    with pytest.raises(TidegateError, match="TG-RECORD-NEWER"):
        sink.position(IDENTITY)


def test_an_altered_claim_is_no_guess(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink)
    sink.commit([committable])
    (claim,) = (tmp_path / ".tidegate").rglob("*.claim")
    claim.write_text(claim.read_text().replace(committable.digest[:8], "00000000"))
    with pytest.raises(TidegateError, match="TG-RECORD-CORRUPT"):
        sink.position(IDENTITY)


# --- the disk ----------------------------------------------------------------------------------------------


def test_what_is_prepared_is_synced_file_first_then_every_folder_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path / "target")
    disk = FsRecorder(monkeypatch, below=tmp_path)
    file = staged(sink, prepared(sink))
    above = [folder for folder in file.parents if folder.is_relative_to(tmp_path / "target")]
    assert disk.synced() == [file, *above]


def test_the_claim_is_durable_before_the_first_rename_and_the_renames_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink)
    disk = FsRecorder(monkeypatch, below=tmp_path)
    sink.commit([committable])
    (claim,) = (tmp_path / ".tidegate").rglob("*.claim")
    steps = [(event.what, event.to or event.path) for event in disk.events]
    order = [
        ("link", claim),
        ("sync", claim.parent),
        ("rename", tmp_path / visible(tmp_path)[0]),
        ("sync", tmp_path),
        ("sync", staged(sink, committable).parent),
    ]
    assert [step for step in steps[steps.index(order[0]) :] if step in order] == order
    (link,) = (event for event in disk.events if event.what == "link")
    assert disk.events[disk.events.index(link) - 1] == Event("sync", link.path)


def test_what_another_finisher_renamed_is_synced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink)
    sink.commit([committable])
    disk = FsRecorder(monkeypatch, below=tmp_path)
    claim = tmp_path / ".tidegate" / local(sink).claims.folder(IDENTITY)
    assert outcomes(sink, committable) == [Outcome.ALREADY]
    assert disk.synced() == [claim, tmp_path, staged(sink, committable).parent]
    disk.forget()
    assert sink.evidence(committable) is Evidence.PRESENT
    assert disk.synced() == [claim, tmp_path, staged(sink, committable).parent]


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """As on a full disk: no file of this process grows beyond this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_a_full_disk_fails_the_task_and_leaves_nothing_of_it(tmp_path: Path, format: str) -> None:
    transaction = opened(tmp_path, format=format).begin(attempt_of())
    rows = rows_from(0, 200_000)
    with files_of_at_most(4096), pytest.raises(OSError, match="File too large"):
        transaction.write(rows)
    transaction.abort()
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    held = [os.path.realpath(f"/proc/self/fd/{descriptor}") for descriptor in os.listdir("/proc/self/fd")]
    assert [path for path in held if path.startswith(str(tmp_path))] == []


def test_a_full_disk_delays_the_commit_before_anything_is_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path)
    committable = prepared(sink)
    with monkeypatch.context() as patch:
        FsRecorder(patch, below=tmp_path).fail("link", errno.ENOSPC)
        (answer,) = sink.commit([committable])
    assert answer.outcome is Outcome.RETRY
    assert "No space left" in answer.detail
    assert visible(tmp_path) == []
    assert not list(tmp_path.rglob("*.tmp"))
    assert outcomes(sink, committable) == [Outcome.COMMITTED]


def test_a_target_that_is_gone_is_tried_again_later(tmp_path: Path) -> None:
    sink = opened(tmp_path / "target")
    committable = prepared(sink)
    (tmp_path / "target").rename(tmp_path / "elsewhere")
    assert outcomes(sink, committable) == [Outcome.RETRY]
    (tmp_path / "elsewhere").rename(tmp_path / "target")
    assert outcomes(sink, committable) == [Outcome.COMMITTED]


def test_small_batches_share_a_row_group(tmp_path: Path) -> None:
    sink = opened(tmp_path, format="parquet")
    transaction = sink.begin(attempt_of())
    for number in range(20):
        transaction.write(rows_from(number, 100))
    committable = transaction.pre_commit()
    assert committable is not None
    sink.commit([committable])
    (file,) = tmp_path.glob("*.parquet")
    assert pq.ParquetFile(file).metadata.num_row_groups == 1


# --- what stands against a start ---------------------------------------------------------------------------


def codes(sink: FileSink, given: SinkPlan) -> list[str]:
    return [error.code for error in sink.check(given)]


def test_a_new_folder_is_fine_and_stays_unmade(tmp_path: Path) -> None:
    assert codes(FileSink("numbers", tmp_path / "a" / "b"), plan()) == []
    assert list(tmp_path.iterdir()) == []


def test_everything_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    schema = pa.schema([("a", pa.duration("us")), ("A", pa.list_(pa.uint64()))])
    sink = FileSink("numbers", tmp_path / "file" / "x")
    assert codes(sink, plan(schema, mode="complete", local_master=False)) == [
        "TG-SINK-LOCAL-ONLY",
        "TG-SINK-UNUSABLE",
        "TG-OUTPUT-MODE",
        "TG-SCHEMA-MISMATCH",
        "TG-SCHEMA-MISMATCH",
        "TG-SCHEMA-MISMATCH",
    ]


def test_a_url_of_no_storage_is_refused() -> None:
    with pytest.raises(TidegateError, match=r"TG-SETTING-VALUE[\s\S]*gs"):
        FileSink("numbers", "gs://bucket/numbers")


def test_a_map_needs_names_for_json_only(tmp_path: Path) -> None:
    by_price = plan(pa.schema([("m", pa.map_(pa.float64(), pa.string()))]))
    assert codes(FileSink("numbers", tmp_path, format="json"), by_price) == ["TG-SCHEMA-MISMATCH"]
    assert codes(FileSink("numbers", tmp_path), by_price) == []


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match=r"TG-OPTION-UNKNOWN[\s\S]*'parquet', 'json'"):
        FileSink("numbers", tmp_path, format="orc")
