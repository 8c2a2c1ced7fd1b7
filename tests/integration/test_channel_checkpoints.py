"""Retained checkpoints of a job with channels: each is one cut across its queries, and the job goes back to it."""

from __future__ import annotations

from pathlib import Path

from tests.integration.place import Place, run, wait_until
from tests.integration.test_channel_savepoints import counting, fed, words_of
from tests.support.today import turn
from tidegate import Restore
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.storages.schemes import Folder


def checkpoints(place: Place, name: str = "job") -> list[int]:
    return retained_numbers(Folder.of(place.checkpoints / name))


@turn(1, of=2)
def test_a_job_goes_back_to_each_of_its_retained_checkpoints_and_its_outputs_are_exact(place: Place) -> None:
    """The checkpoints are taken under load. Each is restored in another job; the older one in its own, too."""
    with fed(place, files=80, every_seconds=0.5):
        handle = counting(place, seconds=0.02, checkpointing_retained=2).start()
        try:
            wait_until(lambda: len(checkpoints(place)) == 2, "checkpoints")
            first = checkpoints(place)[0]
            wait_until(lambda: checkpoints(place)[0] >= first + 2, "newer ones in their place")
        finally:
            handle.stop()
    place.write("sea", "wind")  # so that each of them has something to read
    written = words_of(place)
    numbers = checkpoints(place)
    assert len(numbers) == 2
    for number in numbers:
        at = place.checkpoints / "job" / "checkpoints" / str(number)
        elsewhere = str(place.folder / f"elsewhere-{number}")
        job = counting(place, f"copy-{number}", f"copy-{number}.db", checkpointing_dir=elsewhere)
        job.start(until="caught-up", savepoint=at).wait()
        table = dict(place.table(path=f"copy-{number}.db"))
        assert {word: count for word, count in table.items() if count != written[word]} == {}
        assert table
    older = place.checkpoints / "job" / "checkpoints" / str(numbers[0])
    counting(place).start(until="caught-up", savepoint=Restore(str(older), rewind="once")).wait()
    assert dict(place.table()) == written


def test_what_checkpoints_hold_goes_with_them_and_what_a_killed_driver_has_left_at_the_next_start(place: Place) -> None:
    for word in ("sea", "sand", "ice"):
        place.write(word)
        run(counting(place, checkpointing_retained=1))
    job = Folder.of(place.checkpoints / "job")
    held = place.checkpoints / "job" / "checkpoints" / "held"
    assert held_files(held) == named(job)
    left = held / "5f0c2a/count/state/0/0/77_left.zip"
    left.parent.mkdir(parents=True)
    left.write_text("of a driver that was killed")
    place.write("wind")
    run(counting(place, checkpointing_retained=1))
    assert held_files(held) == named(job)
    assert not (held / "5f0c2a").exists()


def test_a_start_without_new_rows_takes_no_checkpoint(place: Place) -> None:
    place.write("sea")
    run(counting(place))
    before = checkpoints(place)
    for _ in range(2):
        run(counting(place))
    assert checkpoints(place) == before


def named(job: Folder) -> set[str]:
    """The files that the newest manifest names."""
    record = read_retained(job, retained_numbers(job)[-1])
    assert record is not None
    return {f"{record.held_in}/{query}/{name}" for query, names in record.held.items() for name in names}


def held_files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
