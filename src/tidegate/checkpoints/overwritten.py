"""The error for a state file that was written over. It names the checkpoints to which the job can go back."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.checkpoints.job_layout import CHECKPOINTS, QUERIES, generation_folder, retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.checkpoints.state_proof import StateFlaw, flaws_at
from tidegate.core.errors import Code, TidegateError
from tidegate.storages.schemes import Folder


def state_overwritten(flaws: Sequence[StateFlaw], job_folder: Folder) -> TidegateError:
    """The error for these flaws. `flaws` is not empty. Compares the files of every retained checkpoint."""
    whole = [str(job_folder / CHECKPOINTS / str(number)) for number in whole_checkpoints(job_folder)]
    others = f"; {len(flaws) - 1} more of its files differ" if len(flaws) > 1 else ""
    return TidegateError(
        Code.STATE_OVERWRITTEN,
        expected=flaws[0].expected,
        found=f"{flaws[0].found}, as when a driver that was paused has written late{others}",
        where=flaws[0].where,
        next_step=(
            f"go back to a retained checkpoint that is whole ({', '.join(whole)}) or to a savepoint"
            if whole
            else "go back to a savepoint, because no retained checkpoint is whole"
        )
        + ": tidegate run -s PATH APP",
    )


def whole_checkpoints(job_folder: Folder) -> list[int]:
    """The numbers of the retained checkpoints whose state files are as they were written, the newest first."""
    return [number for number in reversed(retained_numbers(job_folder)) if _is_whole(job_folder, number)]


def _is_whole(job_folder: Folder, number: int) -> bool:
    record = read_retained(job_folder, number)
    return record is not None and not any(
        flaws_at(generation_folder(job_folder / QUERIES / done.query, done.generation), done.epoch)
        for done in record.queries
    )
