"""The ingest log of a restored generation on a disk (`ingest_join` says what is in it).

ingest/.<uid>.restored-g<G>   the log of generation G, assembled under a hidden name
ingest/<uid>                  the log; the hidden folder takes its place when *job.json* names generation G
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.checkpoints.ingest_layout import INGEST, segments
from tidegate.checkpoints.ingest_part import bring
from tidegate.disk.durable import ensure_folder, remove_folder, sync_file, sync_folder
from tidegate.savepoints.ingest_join import JoinedLog, LogOnDisk, SavedLog, joined_log, log_in


def join(source: str, ingest: Path, saved: SavedLog | None, where: str) -> JoinedLog:
    """`joined_log` for a job on a disk. `ingest` has the job's logs; no process appends to them."""
    return joined_log(source, _LogsOnDisk(ingest), saved, where)


def prepare_log(job_folder: Path, generation: int, joined: JoinedLog) -> None:
    """Assemble the log of a new generation, hidden and durable. Only with the job's locks held."""
    if joined.is_in_place:
        return
    own = job_folder / INGEST / joined.source
    ensure_folder(own.parent)
    hidden = own.with_name(f".{joined.source}{_RESTORED}{generation}")
    remove_folder(hidden)
    bring(joined.parts, joined.begin, hidden, lambda piece: own.parent in piece.segment.path.parents)
    for path in hidden.iterdir():
        with path.open("rb") as file:
            sync_file(file.fileno())
    sync_folder(hidden)
    sync_folder(own.parent)


def settle_logs(job_folder: Path, generation: int) -> None:
    """Move the log of this generation to its place, and remove logs that were prepared for others. Only with the job's
    locks held, and before anything opens a log.
    """
    ingest = job_folder / INGEST
    with suppress(FileNotFoundError):
        for name in os.listdir(ingest):
            found = _HIDDEN.fullmatch(name)
            if found is not None and int(found[2]) == generation:
                for log in {segment.begin.log for segment in segments(ingest / name)}:
                    for folder in (*_folders_of(log, ingest), ingest / found[1]):
                        remove_folder(folder)  # the hidden folder holds everything that is needed of it
                os.rename(ingest / name, ingest / found[1])
                sync_folder(ingest)
            elif name.startswith("."):
                remove_folder(ingest / name)
        if not os.listdir(ingest):
            ingest.rmdir()


def _folders_of(log: str, ingest: Path) -> list[Path]:
    """The folders in `ingest` that contain the log with the id `log`: one, or none."""
    folders = sorted(path for path in ingest.glob("[!.]*") if path.is_dir())
    return [path for path in folders if any(segment.begin.log == log for segment in segments(path))]


@dataclass(frozen=True, slots=True)
class _LogsOnDisk:
    ingest: Path

    def under(self, uid: str) -> LogOnDisk | None:
        return log_in(self.ingest / uid)

    def of(self, log: str) -> LogOnDisk | None:
        folders = _folders_of(log, self.ingest)
        return log_in(folders[0]) if folders else None


_RESTORED = ".restored-g"
_HIDDEN = re.compile(rf"\.(.+){re.escape(_RESTORED)}([1-9][0-9]*)")
