"""The file sink on a storage that is not a disk: its contract, its proofs, and what a reader that only lists sees."""

from __future__ import annotations

import json
import secrets

import pytest

from tidegate.core.records import Attempt, Committable, Evidence, Outcome
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.files.remote_place import RemotePlace
from tidegate.sinks.files.sink import FileSink
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, Row, SinkContract, attempt_of, rows_from


class RemoteFilesContract(SinkContract):
    """Set `root` in a fixture."""

    kills_at_most = 3
    root: Folder

    @pytest.fixture(autouse=True)
    def _target(self) -> None:
        self.name = secrets.token_hex(6)

    def make_sink(self) -> FileSink:
        return FileSink("numbers", str(self.target), format="json")

    @property
    def target(self) -> Folder:
        return self.root / self.name / self.folder.name

    def read_target(self) -> list[Row]:
        return [json.loads(line) for data in visible(self.target).values() for line in data.splitlines()]

    # --- beyond the contract of sinks --------------------------------------------------------------------------

    def test_what_is_hidden_is_below_one_folder_whose_name_begins_with_a_dot(self) -> None:
        sink = self.opened()
        self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        assert visible(self.target) == {}
        names = {each.name.partition("/")[0] for each in open_checkpoint_files(self.target).list()}
        assert names == {".tidegate"}

    @pytest.mark.more
    def test_a_commit_that_is_killed_before_every_call_is_finished_by_the_next(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.skip_in_one_process()
        monkeypatch.setattr(type(self), "kills_at_most", 100)
        self.test_a_commit_that_is_killed_anywhere_is_finished_by_the_next()

    def test_partitions_and_limits_make_the_same_files_as_on_a_disk(self) -> None:
        sink = FileSink("numbers", str(self.target), format="json", partition_by="word", max_file_rows=1)
        sink.open(self.plan())
        committable = self.prepared(sink, attempt_of(), rows_from(0, 2), rows_from(0, 2))
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        found = visible(self.target)
        assert sorted(name.rpartition("/")[0] for name in found) == sorted(2 * ["word=word 0", "word=word 1"])
        assert sorted(json.loads(data)["id"] for data in found.values()) == [0, 0, 1, 1]

    def test_an_altered_or_a_missing_stage_is_lost_and_its_siblings_stay_invisible(self) -> None:
        sink = self.opened()
        tasks = [self.prepared(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(3)]
        names = staged(self.target)
        storage = open_storage(self.target)
        storage.replace(next(name for name in names if "-t1-" in name), b"torn")
        storage.delete(next(name for name in names if "-t2-" in name))
        outcomes = [answer.outcome for answer in sink.commit(tasks)]
        assert outcomes == [Outcome.RETRY, Outcome.LOST, Outcome.LOST]
        assert visible(self.target) == {}

    def test_a_commit_that_broke_off_between_two_files_is_finished(self) -> None:
        sink = self.opened()
        tasks = [self.prepared(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(2)]
        place = self.place(sink)
        place.claims.claim(tasks)
        place.committer._published(tasks[0], {})
        assert len(visible(self.target)) == 1
        assert sink.evidence(tasks[0]) is Evidence.PRESENT
        assert sink.evidence(tasks[1]) is Evidence.ABSENT
        self.all_taken(sink.commit(tasks))
        self.target_has(rows_from(0, 2), rows_from(1, 2))

    def test_once_an_epoch_is_done_its_files_may_be_compacted(self) -> None:
        """Also beside a driver that stood still right before it published: its copy finds nothing."""
        sink = self.opened()
        committable = self.prepared(sink, attempt_of(epoch=4), rows_from(0, 2))
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        position = sink.position(IDENTITY)
        sink.clean(IDENTITY, 4)
        self.compact()
        stalled = self.place(self.opened()).committer._published(committable, {})
        assert stalled.outcome in (Outcome.ALREADY, Outcome.UNKNOWN)
        assert sink.position(IDENTITY) == position
        assert sink.commit([committable])[0].outcome in (Outcome.ALREADY, Outcome.UNKNOWN)
        self.target_has()
        assert staged(self.target) == []

    def test_nothing_is_left_of_epochs_that_are_given_up(self) -> None:
        sink = self.opened()
        kept = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        for run in (1, 2):
            self.prepared(sink, attempt_of(epoch=2, run=run), rows_from(10, 2))
        assert sink.discard(IDENTITY, 2) == 2
        assert len(staged(self.target)) == 1
        self.all_answer(sink.commit([kept]), Outcome.COMMITTED)
        sink.clean(IDENTITY, 2)
        assert staged(self.target) == []

    def test_a_forgotten_job_leaves_no_evidence(self) -> None:
        sink = self.opened()
        sink.commit([self.prepared(sink, attempt_of(), rows_from(0, 2))])
        sink.clean(IDENTITY, 0)
        sink.forget(IDENTITY)
        assert sink.position(IDENTITY) is None
        hidden = [each.name for each in open_checkpoint_files(self.target).list() if each.name.startswith(".")]
        assert hidden == []

    # --- tools -------------------------------------------------------------------------------------------------

    def place(self, sink: TwoPhaseSink) -> RemotePlace:
        assert isinstance(sink, FileSink)
        assert isinstance(sink.place, RemotePlace)
        return sink.place

    def committed(self, attempt: Attempt) -> Committable:
        """A committed transaction with two rows."""
        sink = self.opened()
        committable = self.prepared(sink, attempt, rows_from(0, 2))
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        return committable

    def compact(self) -> None:
        """Remove the visible files, as a job does that has written their rows elsewhere."""
        for name in visible(self.target):
            open_storage(self.target).delete(name)


def visible(target: Folder) -> dict[str, bytes]:
    """The files that a reader finds below a folder, by name: it skips what begins with a dot or an underscore."""
    files = open_checkpoint_files(target)
    names = [each.name for each in files.list()]
    shown = [name for name in names if not any(part.startswith((".", "_")) for part in name.split("/"))]
    return {name: content(files, name) or b"" for name in shown}


def staged(target: Folder) -> list[str]:
    """The names of the staged files below a folder."""
    return [each.name for each in open_checkpoint_files(target).list() if each.name.endswith(".staged")]


def content(files: CheckpointFiles, name: str) -> bytes | None:
    """All of a file; None if it is absent."""
    file = files.open(name)
    if file is None:
        return None
    data, buffer = bytearray(), memoryview(bytearray(1 << 20))
    while length := file.readinto(buffer):
        data += buffer[:length]
    file.close()
    return bytes(data)
