"""A restore of the savepoint of a job that was written by hand, into its own folder or another one. Run as a program it
kills itself behind a step: JOB SAVEPOINT STEP LINK."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.records import JobRecord, OperatorFingerprint, OperatorsAccepted, Run, Start, decode
from tidegate.savepoints.folder import Savepoint, open_savepoint
from tidegate.savepoints.restore import RestoredQuery, Restoring, commit, prepare
from tidegate.savepoints.settled import settle
from tidegate.storages.schemes import Folder

FINGERPRINT = OperatorFingerprint(number=0, uid="", compared={"aggregate functions": "count(v)"})
ACCEPTED = OperatorsAccepted(fingerprints=(FINGERPRINT,), at="now", accepted=("sum(v) -> count(v)",))
RUN = Run(run=4, token="0a0b0c0d", host="here", process=1, since="now")


def restoring(
    job: Path,
    savepoint: Savepoint,
    reach: Callable[[str], None] = lambda _step: None,
    *,
    uid: str = "query",
    generation: int = 2,
    link: bool = False,
) -> Restoring:
    (saved,) = savepoint.record.queries
    start = Start(
        job_id="0f1e2d3c",
        generation=generation,
        first_epoch=saved.done.epoch + 1,
        sources=saved.done.sources,
        sinks=saved.done.sinks,
    )
    return Restoring(
        job_folder=Folder.of(job),
        older=_record_of(job),
        savepoint=savepoint,
        record=JobRecord(name="job", job_id="0f1e2d3c", generation=generation),
        queries=[RestoredQuery(uid=uid, saved=saved, start=start, run=RUN, places=(0,), accepted=ACCEPTED)],
        left_behind=() if uid == "query" else ("query",),
        link=link,
        reach=reach,
    )


def _record_of(job: Path) -> JobRecord | None:
    data = (job / JOB_RECORD).read_bytes() if (job / JOB_RECORD).exists() else None
    return None if data is None else decode(JobRecord, data, JOB_RECORD)


def restore(wanted: Restoring) -> None:
    """As a start does: what a killed one has left is settled first."""
    settle(wanted.job_folder)
    prepare(wanted)
    wanted.reach("restore.counted")
    commit(wanted)


def main() -> None:
    job, savepoint, fatal, link = Path(sys.argv[1]), open_savepoint(Path(sys.argv[2])), sys.argv[3], sys.argv[4]

    def reach(step: str) -> None:
        if step == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    restore(restoring(job, savepoint, reach, link=link == "link"))


if __name__ == "__main__":
    main()
