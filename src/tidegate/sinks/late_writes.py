"""Rows that an idempotent target refuses: they come too late, or their keys belong to another job."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt
from tidegate.sinks.stamps import fence_in_words, fence_of, is_lost, numbers_of


@dataclass(frozen=True, slots=True)
class LateWrites:
    """The refusals of one attempt's rows. `where`: sink and target."""

    attempt: Attempt
    where: str

    def fenced(self, standing: str) -> TidegateError:
        """`standing`: the fence in the target, which is not that of this run; empty if there is none."""
        attempt = self.attempt
        if is_lost(standing, fence_of(attempt.sink.generation, attempt.run, attempt.run_token)):
            return self._error(
                Code.EPOCH_FAILED,
                f"the fence of run {attempt.run}, which it has raised before its first epoch",
                fence_in_words(standing) if standing else "none: the server has lost it, or it was removed",
                "start again: a start compares what the target has kept, and raises the fence",
            )
        return self._error(
            Code.RUN_SUPERSEDED, f"the fence of run {attempt.run} in the target", fence_in_words(standing)
        )

    def finished(self, done: str) -> TidegateError:
        """`done`: the place of the newest finished epoch. The target takes no row of it, or of an earlier one."""
        _, epoch = numbers_of(done)
        return self._error(
            Code.EPOCH_FINISHED,
            f"rows of an epoch behind {epoch}, which the target has as finished",
            f"epoch {self.attempt.epoch}: this attempt of a task has outlived it",
        )

    def owned(self, key: str, owner: str, next_step: str) -> TidegateError:
        """`owner`: of the key (job id/query/sink). `next_step`: how this sink gets other keys."""
        return self._error(
            Code.SINK_OF_ANOTHER_JOB,
            f"a key of job id {self.attempt.sink.job_id}, of a forgotten job, or of none",
            f"{key}, which {owner} has written (job id/query/sink)",
            f"{next_step}; or, if that job is not needed any more: tidegate forget JOB",
        )

    def _error(self, code: Code, expected: str, found: str, next_step: str | None = None) -> TidegateError:
        return TidegateError(code, expected=expected, found=found, where=self.where, next_step=next_step)
