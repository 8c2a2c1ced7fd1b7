"""The proof of state files without unique names: what is named, what is removed, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tidegate.checkpoints.job_layout import CHECKPOINTS, MANIFEST
from tidegate.checkpoints.overwritten import state_overwritten, whole_checkpoints
from tidegate.checkpoints.state_proof import ALL_NAMED_EVERY, StateFiles, flaws_at, needed_at, open_state
from tidegate.core.ledger import DECIDED, START, entry, prepared_name
from tidegate.core.records import CheckpointRecord, Decided, DoneEpoch, Prepared, Start, StateFile, encode
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class Generation:
    """A query of one operator with two stores, whose epochs are written as Spark and a run write them."""

    def __init__(self, folder: Path, first_epoch: int = 0) -> None:
        self.folder = Folder.of(folder / "job/queries/query/g1")
        self.ledger = open_storage(self.folder)
        self.spark = Path(self.folder.path) / "spark"
        start = Start(job_id="0f1e2d3c", generation=1, first_epoch=first_epoch, sources=("in",), sinks=("out",))
        self.ledger.put_if_absent(START, encode(start))
        self.run = 0
        self.state: StateFiles | None = None

    def begin_run(self, newest: int) -> list[str]:
        """The flaws that the new run finds, by the place."""
        self.run += 1
        self.state, flaws = open_state(self.folder, newest)
        return [Path(flaw.where).relative_to(self.spark).as_posix() for flaw in flaws]

    def write(self, name: str, text: str) -> None:
        path = self.spark / "state/0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def compute(self, epoch: int) -> tuple[StateFile, ...]:
        assert self.state is not None
        for store in range(2):
            self.write(f"{store}/{epoch + 1}.delta", f"delta {epoch} of run {self.run}")
        return self.state.of_epoch(epoch)

    def finish(self, epoch: int) -> list[str]:
        """Compute an epoch, and decide it. Returns what its record names."""
        files = self.compute(epoch)
        prepared = Prepared(
            epoch=epoch,
            run=self.run,
            committables=(),
            start_positions=None,
            offsets=b"",
            state_ids=None,
            state_files=files,
        )
        self.ledger.put_if_absent(prepared_name(epoch, self.run), encode(prepared))
        decided = Decided(epoch=epoch, run=self.run, prepared_digest="", offsets=b"", commits=b"")
        self.ledger.put_if_absent(entry(DECIDED, epoch), encode(decided))
        return [file.name.removeprefix("state/0/") for file in files]

    def snapshots(self) -> list[str]:
        return sorted(path.relative_to(self.spark / "state/0").as_posix() for path in self.spark.rglob("*.snapshot"))

    def forget(self, epochs: Iterable[int]) -> None:
        """Remove the records of old epochs, as the finisher does."""
        for epoch in epochs:
            self.ledger.delete(entry(DECIDED, epoch))
            self.ledger.delete(prepared_name(epoch, 1))


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    return Generation(tmp_path)


def test_spark_needs_the_newest_snapshot_and_the_deltas_behind_it() -> None:
    names = ["state/0/0/3.snapshot", "state/0/0/7.snapshot", "state/0/0/6.delta", "state/0/1/1.delta"]
    assert needed_at(6, names) == [
        "state/0/0/3.snapshot",
        *(f"state/0/0/{number}.delta" for number in (4, 5, 6)),
        *(f"state/0/1/{number}.delta" for number in range(1, 7)),
    ]


def test_an_epoch_names_its_deltas_and_the_first_one_of_a_run_all_files(generation: Generation) -> None:
    assert generation.begin_run(-1) == []
    assert generation.finish(0) == ["0/1.delta", "1/1.delta"]
    assert generation.finish(1) == ["0/2.delta", "1/2.delta"]
    assert generation.begin_run(1) == []
    assert generation.finish(2) == [f"{store}/{version}.delta" for store in range(2) for version in (1, 2, 3)]


def test_a_file_that_was_written_over_is_found_by_the_next_start(generation: Generation) -> None:
    generation.begin_run(-1)
    for epoch in range(3):
        generation.finish(epoch)
    generation.write("1/2.delta", "of a late writer")
    assert generation.begin_run(2) == ["state/0/1/2.delta"]
    (generation.spark / "state/0/1/2.delta").unlink()
    assert generation.begin_run(2) == ["state/0/1/2.delta"]


def test_a_delta_is_proved_for_longer_than_the_record_of_its_epoch_is_kept(generation: Generation) -> None:
    generation.begin_run(-1)
    for epoch in range(3 * ALL_NAMED_EVERY):
        generation.finish(epoch)
    generation.forget(range(2 * ALL_NAMED_EVERY))
    assert generation.begin_run(3 * ALL_NAMED_EVERY - 1) == []
    generation.write("0/1.delta", "of a late writer")
    assert generation.begin_run(3 * ALL_NAMED_EVERY - 1) == ["state/0/0/1.delta"]


def test_a_snapshot_of_a_version_that_another_run_may_have_made_is_removed(generation: Generation) -> None:
    """Of the first version of a run, while it runs and at the next start."""
    generation.begin_run(-1)
    generation.finish(0)
    generation.begin_run(0)
    generation.write("0/2.snapshot", "of a late writer")
    assert "0/2.snapshot" not in generation.finish(1)
    assert generation.snapshots() == []
    for epoch in range(2, ALL_NAMED_EVERY):
        generation.finish(epoch)
    generation.write("0/2.snapshot", "of a late writer")
    generation.write("0/5.snapshot", "of this run")
    assert "0/5.snapshot" in generation.finish(ALL_NAMED_EVERY)
    assert generation.snapshots() == ["0/5.snapshot"]
    generation.write("0/6.snapshot", "not named yet")
    assert generation.begin_run(ALL_NAMED_EVERY) == []
    assert generation.snapshots() == ["0/5.snapshot"]


def test_a_snapshot_that_was_named_takes_the_place_of_the_deltas_before_it(generation: Generation) -> None:
    generation.begin_run(-1)
    for epoch in range(ALL_NAMED_EVERY):
        generation.finish(epoch)
    for store in range(2):
        generation.write(f"{store}/3.snapshot", "of this run")
    generation.finish(ALL_NAMED_EVERY)
    for store in range(2):
        for version in range(1, 4):
            (generation.spark / f"state/0/{store}/{version}.delta").unlink()
    assert generation.begin_run(ALL_NAMED_EVERY) == []
    generation.write("0/3.snapshot", "of a late writer")
    assert generation.begin_run(ALL_NAMED_EVERY) == ["state/0/0/3.snapshot"]


def test_what_a_restore_has_brought_is_named_by_the_first_epoch(tmp_path: Path) -> None:
    generation = Generation(tmp_path, first_epoch=8)
    for store in range(2):
        generation.write(f"{store}/8.snapshot", "restored")
    assert generation.begin_run(7) == []
    generation.compute(8)
    generation.write("0/9.snapshot", "of the epoch that was not prepared")
    assert generation.begin_run(7) == []
    assert generation.snapshots() == ["0/8.snapshot", "1/8.snapshot"]
    assert generation.finish(8) == ["0/8.snapshot", "0/9.delta", "1/8.snapshot", "1/9.delta"]
    generation.write("1/8.snapshot", "of a late writer")
    assert generation.begin_run(8) == ["state/0/1/8.snapshot"]


def test_the_refusal_names_the_file_and_the_checkpoints_that_are_whole(generation: Generation) -> None:
    generation.begin_run(-1)
    for epoch in range(3):
        generation.finish(epoch)
    job = generation.folder.parent.parent.parent
    for number, epoch in ((1, 0), (2, 1), (3, 2)):
        open_storage(job).replace(f"{CHECKPOINTS}/{number}/{MANIFEST}", encode(checkpoint(number, epoch)))
    assert whole_checkpoints(job) == [3, 2, 1]
    generation.write("0/3.delta", "of a late writer")
    generation.write("1/3.delta", "of a late writer")
    error = state_overwritten(flaws_at(generation.folder, 2), job)
    assert (error.code, error.where) == ("TG-STATE-OVERWRITTEN", str(generation.spark / "state/0/0/3.delta"))
    assert "1 more of its files" in error.found
    assert f"({job}/checkpoints/2, {job}/checkpoints/1)" in error.next_step
    generation.write("0/1.delta", "of a late writer")
    assert "no retained checkpoint is whole" in state_overwritten(flaws_at(generation.folder, 2), job).next_step


def checkpoint(number: int, epoch: int) -> CheckpointRecord:
    done = DoneEpoch(
        query="query",
        generation=1,
        epoch=epoch,
        run=1,
        sources=("in",),
        sinks=("out",),
        offsets=b"",
        commits=b"",
        progress={},
    )
    return CheckpointRecord(number=number, job="job", job_id="0f1e2d3c", at="now", queries=(done,))
