"""The world of openers with restores by `-s`, too: `python -m tests.simulation.restores_world`.

A restore goes back to the newest done epochs of the job, or to those of an earlier restore, with a rewind. It prepares
the files on a disk of its machine and brings them to the storage, seals the older generation, and lets the new one
count, by the functions that a start calls.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import msgspec

from tests.simulation.openers_world import FOLDER, SETTINGS, UIDS, Process, World, state_file
from tests.simulation.seeds import main_of
from tidegate.checkpoints.job_layout import QUERIES, generation_folder
from tidegate.checkpoints.spark_layout import commits_entry, offsets_entry
from tidegate.core.records import (
    DoneEpoch,
    JobRecord,
    Run,
    SavedFile,
    SavedQuery,
    SavepointFormat,
    SavepointRecord,
    digest_of,
    encode,
)
from tidegate.operate.place import JobPlace
from tidegate.operate.runner import introduce
from tidegate.savepoints import fresh
from tidegate.savepoints import restore as restoring
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.hold import RunningQuery, newest_done
from tidegate.savepoints.restore import RestoredQuery, Restoring
from tidegate.spark.given_up import GivenUp
from tidegate.storages import opening

_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass(frozen=True, slots=True)
class Saved:
    """The newest done epoch of each query that has one, and its state."""

    record: JobRecord
    queries: Mapping[str, tuple[DoneEpoch, bytes]]


class WorldWithRestores(World):
    """One seed."""

    often: ClassVar[tuple[int, ...]] = (5, 2, 1, 4)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.saved: list[Saved] = []

    def acts(self) -> Mapping[str, Callable[[Process], None]]:
        return {**super().acts(), "restore": self.restore}

    def restore(self, process: Process) -> None:
        """As `spark.restore_carried_out` does it. A job without a done epoch is only started."""
        found = self.locked()
        saved = None if found is None else self._one_of_the_saved(found)
        if found is None or saved is None:
            self.start(process)
            return
        target = msgspec.structs.replace(found, generation=max(found.generation, fresh.highest_generation(FOLDER)) + 1)
        plans = self.plan(target).queries
        given_up = GivenUp(JobPlace(FOLDER, found), plans, goes_back=True)
        given_up.finish(SETTINGS.checkpointing_mode, SETTINGS.stop_timeout)

        def reach(step: str) -> None:
            if step == "restore.recorded":
                begins = {uid: done.epoch + 1 for uid, (done, _) in saved.queries.items()}
                self.begins |= {(target.generation, uid): begins.get(uid, 0) for uid in UIDS}
            process.reach(step)

        with TemporaryDirectory(prefix="tidegate-restore-", dir=_IN_MEMORY) as here:
            wanted = self._restoring(Path(here), saved, found, target, f"of {process.number}", reach)
            restoring.prepare(wanted)
            given_up.seal(SETTINGS.checkpointing_mode, SETTINGS.stop_timeout, reach)
            restoring.commit(wanted)
        self.figures["restored"] += 1
        self.go_on_with(process, target)

    def _one_of_the_saved(self, found: JobRecord) -> Saved | None:
        queries: dict[str, tuple[DoneEpoch, bytes]] = {}
        for uid in UIDS:
            folder = generation_folder(FOLDER / QUERIES / uid, found.generation)
            done = newest_done(RunningQuery(self.query(found, uid), folder, 100))
            state = None if done is None else opening.open_storage(folder).read(state_file(done.epoch))
            if done is not None and state is not None:
                queries[uid] = done, state
        if queries:
            self.saved.append(Saved(found, queries))
        return self.rng.choice([None, *(each for each in self.saved if each.record.job_id == found.job_id)])

    def _restoring(
        self, here: Path, saved: Saved, found: JobRecord, target: JobRecord, rewind: str, reach: Callable[[str], None]
    ) -> Restoring:
        savepoint = _written(here / "savepoint", saved)
        token, host, process, since = introduce()
        run = Run(run=1, token=token, host=host, process=process, since=since)
        queries = [
            RestoredQuery(
                uid=each.done.query,
                saved=each,
                start=self.query(target, each.done.query).start(first_epoch=each.done.epoch + 1),
                run=msgspec.structs.replace(run, run=max([each.done.run, *fresh.runs_of(FOLDER, each.done.query)])),
                places=(0,),
            )
            for each in savepoint.record.queries
        ]
        return Restoring(
            job_folder=FOLDER,
            savepoint=savepoint,
            record=target,
            older=found,
            queries=queries,
            rewind=rewind,
            program=UIDS,
            aside=here / "aside",
            reach=reach,
        )


def _written(folder: Path, saved: Saved) -> Savepoint:
    """The savepoint in a folder of this disk."""
    files: list[SavedFile] = []
    for uid, (done, state) in saved.queries.items():
        contents = {
            f"spark/{offsets_entry(done.epoch)}": done.offsets,
            f"spark/{commits_entry(done.epoch)}": done.commits,
            state_file(done.epoch): state,
        }
        for name, data in contents.items():
            path = folder / QUERIES / uid / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
            files.append(SavedFile(name=f"{QUERIES}/{uid}/{name}", size_bytes=len(data), sha256=digest))
    record = SavepointRecord(
        id="one",
        format=SavepointFormat.NATIVE,
        job=saved.record.name,
        job_id=saved.record.job_id,
        generation=saved.record.generation,
        at="2026-01-02T03:04:05.678+00:00",
        queries=tuple(_saved_query(done) for done, _ in saved.queries.values()),
        files=tuple(files),
    )
    return Savepoint(folder, record, digest_of(encode(record)))


def _saved_query(done: DoneEpoch) -> SavedQuery:
    return SavedQuery(
        done=done, ends={}, watermark_ms=0, backend="rocksdb", partitions=1, operators=(), fingerprint="same"
    )


if __name__ == "__main__":
    sys.exit(main_of("tests.simulation.restores_world", WorldWithRestores))
