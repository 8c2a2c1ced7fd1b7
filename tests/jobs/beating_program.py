"""The job of the supervisor's tests, which says of itself that it gets on."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from tests.jobs.numbers_program import main
from tidegate.operate.beat import Beat, JobState, write_beat


def beat_for_ever(job_folder: Path) -> None:
    started_at = time.time()
    while True:
        now = time.time()
        beat = Beat(
            job="numbers",
            job_id="",
            state=JobState.RUNNING,
            host="here",
            process=os.getpid(),
            started_at=started_at,
            at=now,
            progress_at=now,
        )
        if job_folder.exists():
            write_beat(job_folder, beat)
        time.sleep(0.2)


folder = Path(sys.argv[1])
threading.Thread(target=beat_for_ever, args=(folder / "checkpoints" / "numbers",), daemon=True).start()
main(folder, sys.argv[2])
