"""The savepoint from which a start resumes, and the job's record before and after the restore.

`restore_judged` collects the errors, `restore_carried_out` opens the new generation.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.succession import standing, was_forgotten
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, digest_of
from tidegate.disk.durable import ensure_folder
from tidegate.savepoints.elsewhere import brought_here
from tidegate.savepoints.folder import (
    MANIFEST,
    Savepoint,
    open_savepoint,
)
from tidegate.savepoints.fresh import highest_generation
from tidegate.savepoints.ingest_join import JoinedLog, SavedLog
from tidegate.savepoints.refusals import of_rows_in_flight
from tidegate.savepoints.restored import all_restored, read_restored
from tidegate.savepoints.restoring import Restore, Scope
from tidegate.savepoints.retained import as_savepoint, by_flinks_name, retained_in
from tidegate.savepoints.take import HELD
from tidegate.spark.fresh import above_evidence
from tidegate.spark.opens import Opens
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.refusals import begins_anew
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")


def open_restore(
    wish: Restore | None, job_folder: Folder, job: str, level: Level, stack: ExitStack, opens: Opens
) -> JobRestore | None:
    """None if no restore was requested, and if the job was already opened from this savepoint: then it resumes from its
    newest checkpoint, so a restarted program does not go back. A retained checkpoint is assembled in a separate folder
    until `stack` ends; for a check outside of the job's folder.

    Raises SAVEPOINT_..., RECORD_..., and the errors of a restore in this folder.
    """
    if wish is None:
        return None
    if level is Level.AT_MOST_ONCE:
        raise _nothing_is_kept(job)
    found = standing(job_folder)
    folder = by_flinks_name(Folder.of(wish.path))
    if found is not None and _was_opened_from(folder, wish.rewind, job_folder, found):
        _LOG.warning(
            "job %s: generation %d was opened from %s before, and resumes from its newest checkpoint",
            *(job, found.generation, folder),
        )
        return None
    savepoint = _opened(folder, job_folder, stack, opens)
    if savepoint.in_flight and (found is None or found.job_id != savepoint.record.job_id):
        raise of_rows_in_flight(str(folder))
    return JobRestore(wish, savepoint, job_folder, found, _target(wish, savepoint, job, job_folder, found))


def _opened(place: Folder, job_folder: Folder, stack: ExitStack, opens: Opens) -> Savepoint:
    retained = retained_in(place)
    if retained is None and not place.is_local:
        here = stack.enter_context(TemporaryDirectory(prefix="tidegate-savepoint-"))
        return brought_here(place, Path(here).resolve())
    if retained is None:
        return open_savepoint(place.local())
    held = None if opens is Opens.CHECK or not job_folder.is_local else job_folder.local() / HELD
    if held is not None:
        ensure_folder(held)
    aside = stack.enter_context(TemporaryDirectory(prefix="tidegate-checkpoint-", dir=held))
    return as_savepoint(place, retained, Path(aside).resolve(), job_folder)


def _was_opened_from(folder: Folder, rewind: str, job_folder: Folder, found: JobRecord) -> bool:
    current = read_restored(job_folder, found)
    if rewind:  # it went back once under this id, even if the job was restored again since
        opened = [each for each in all_restored(job_folder, found) if each.rewind == rewind]
    else:
        opened = [] if current is None else [current]
    manifest = open_storage(folder).peek(MANIFEST)
    if manifest is None:  # removed in the meantime: it is no longer needed
        return any(each.savepoint == str(folder) for each in opened)
    return any(each.digest == digest_of(manifest) for each in opened)


def _target(wish: Restore, savepoint: Savepoint, job: str, job_folder: Folder, found: JobRecord | None) -> JobRecord:
    """The new *job.json*. A job keeps its id. A new job gets a new id, or claims the savepoint's."""
    saved = savepoint.record
    opened = highest_generation(job_folder)
    if found is not None:
        if wish.claim and found.job_id != saved.job_id:
            own = f"no job, or the savepoint's own (id {saved.job_id}), where a savepoint is claimed"
            raise _not_to_claim(own, f"job {found.name} of id {found.job_id}", savepoint)
        # The job may have used another folder in between: evidence in its sinks may be of older generations, too.
        # And a position in a channel names generations of the savepoint, also of another job.
        begun = [found.generation, opened, saved.generation]
        return JobRecord(name=found.name, job_id=found.job_id, generation=max(begun) + 1)
    if wish.claim:
        if was_forgotten(job_folder, saved.job_id):
            living = "a savepoint of a job that was not forgotten here, where it is claimed"
            raise _not_to_claim(living, f"one of job {saved.job} of id {saved.job_id}, which was", savepoint)
        return JobRecord(name=job, job_id=saved.job_id, generation=max(saved.generation, opened) + 1)
    return JobRecord(name=job, job_id=secrets.token_hex(4), generation=max(saved.generation, opened) + 1)


def _not_to_claim(expected: str, found: str, savepoint: Savepoint) -> TidegateError:
    return TidegateError(
        Code.JOB_MISMATCH,
        expected=expected,
        found=found,
        where=str(savepoint.found_at),
        next_step="restore without --claim, or under another job name or checkpointing.dir",
    )


@dataclass(frozen=True, slots=True)
class JobRestore:
    """One restore into one job. `found`: the current *job.json*; `target`: the future one."""

    wish: Restore
    savepoint: Savepoint
    job_folder: Folder
    found: JobRecord | None
    target: JobRecord
    logs: tuple[JoinedLog, ...] = ()
    """The ingest logs from which its sources resume."""

    def saved_log(self, source: str) -> SavedLog | None:
        """The savepoint's part of an ingest log, for a source of the program. Raises SOURCES_CHANGED if two logs would
        become one.
        """
        files = (file.name.split("/") for file in self.savepoint.record.files)
        names = sorted({parts[1] for parts in files if parts[0] == INGEST})
        found = [name for name in names if self.wish.renamed.get(name, name) == source]
        if not found or self.wish.scope is Scope.STATE_ONLY:
            return None
        if len(found) > 1:
            raise TidegateError(
                Code.SOURCES_CHANGED,
                expected="one durable socket source of the savepoint for each of the program",
                found=f"{', '.join(found)} as {source}",
                where=f"job {self.target.name}, source {source}",
                next_step="give each of them a source of its own",
            )
        return SavedLog(self.savepoint.folder / INGEST / found[0], self._is_ours)

    @property
    def _is_ours(self) -> bool:
        """True if the job took the savepoint, or was opened from it."""
        opened = [] if self.found is None else all_restored(self.job_folder, self.found)
        is_its = any(each.digest == self.savepoint.digest for each in opened)
        return is_its or self.target.job_id == self.savepoint.record.job_id

    @property
    def is_claimed(self) -> bool:
        """True if the savepoint belongs to the job from now on."""
        return self.wish.claim

    def above_evidence(self, plans: Sequence[QueryPlan], level: Level) -> JobRestore:
        """This restore, in a generation with a higher number than any that has left evidence in the sinks.

        A claimed savepoint in another folder does not know which generations the job has opened since. If the restore
        reused the number of one of them, each start would be refused.
        """
        if not self.wish.rewind:
            return self
        return replace(self, target=above_evidence(self.target, plans, level))


def _nothing_is_kept(job: str) -> TidegateError:
    return begins_anew(Code.LEVEL_REFUSED, job, "choose another level, or start without a savepoint")
