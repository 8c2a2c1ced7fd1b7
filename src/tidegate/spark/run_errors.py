"""The errors of a run, in order, and those of them to report."""

from __future__ import annotations

from enum import Enum

from tidegate.core.errors import Code, TidegateError
from tidegate.core.next_steps import Remedy
from tidegate.disk.durable import is_of_a_failed_sync
from tidegate.operate.job_end import is_of_an_unready_sink


class UnreadySink(Enum):
    """The treatment of a sink that does not take the last epoch of a run that ends."""

    AN_ERROR = "the run has failed"
    LEFT = "the epoch is left to the next start"


class RunErrors:
    """The errors of one run. Any thread adds errors; the end of the run reads them.

    As a bool: True if there is any error, even if the run reports none of them.
    """

    def __init__(self) -> None:
        self._errors: list[BaseException] = []
        self._unready = UnreadySink.AN_ERROR
        self.left_behind: TidegateError | None = None
        """The error of the sink because of which a decided epoch was left to the next start; None if none was left."""

    def __bool__(self) -> bool:
        return bool(self._errors)

    def add(self, error: BaseException) -> None:
        self._errors.append(error)

    def leave_unready_sinks(self) -> None:
        """From now on, a sink that is not ready to commit an epoch causes no error."""
        self._unready = UnreadySink.LEFT

    @property
    def is_one(self) -> bool:
        """True if there is exactly one error."""
        return len(self._errors) == 1

    def first_to_tell(self) -> BaseException | None:
        """The first error that the run must report; None if there is none.

        After `leave_unready_sinks`, errors of sinks that were not ready are not reported, because the next start
        commits their epoch. The first of these errors is stored in `left_behind`.
        """
        return next(iter([error for error in self._errors if not self._is_left(error)]), None)

    def are_of_the_storage(self) -> bool:
        """True if at least one of the errors shows by itself that the job's folder cannot be written."""
        return any(isinstance(each, TidegateError) and is_of_the_storage(each) for each in self._errors)

    def _is_left(self, error: BaseException) -> bool:
        if self._unready is UnreadySink.LEFT and is_of_an_unready_sink(error):
            self.left_behind = self.left_behind or error
            return True
        return False


_TO_BE_DECIDED = frozenset(code for code in Code if code.remedy is Remedy.DECIDE)
"""Errors that may end an epoch, and that a new start would repeat."""


def is_of_the_storage(error: BaseException) -> bool:
    """True if a durable record could not be written. A failed sync does not count: the disk may have lost data of any
    record, and no later call in this process would report it.
    """
    if is_of_a_failed_sync(error):
        return False
    if isinstance(error, TidegateError):
        return error.catalogue_entry in (Code.STORAGE_FULL, Code.STORAGE_UNUSABLE)
    return isinstance(error, OSError)


def is_told_in_any_case(error: BaseException) -> bool:
    """True if an error must be reported although the end of the job was requested: a sink that was not ready, or an
    error that a new start would repeat.
    """
    to_be_decided = isinstance(error, TidegateError) and error.catalogue_entry in _TO_BE_DECIDED
    return to_be_decided or is_of_an_unready_sink(error)
