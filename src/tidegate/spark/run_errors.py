"""What went wrong in a run, in the order in which it did, and what of it is to be told."""

from __future__ import annotations

from enum import Enum

from tidegate.core.errors import Code, Remedy, TidegateError
from tidegate.disk.durable import is_of_a_failed_sync
from tidegate.operate.job_end import is_of_an_unready_sink


class UnreadySink(Enum):
    """What a sink is to a run that ends and that it does not take the last epoch of."""

    AN_ERROR = "the run has failed"
    LEFT = "the epoch is left to the next start"


class RunErrors:
    """Any thread adds to them; who ends the run asks. True where there are some, also where all of them are left."""

    def __init__(self) -> None:
        self._errors: list[BaseException] = []
        self._unready = UnreadySink.AN_ERROR
        self.left_behind: TidegateError | None = None
        """Which decided epoch was left to the next start, because a sink did not take it at once."""

    def __bool__(self) -> bool:
        return bool(self._errors)

    def add(self, error: BaseException) -> None:
        self._errors.append(error)

    def leave_unready_sinks(self) -> None:
        """From now on it is no error that a sink does not take an epoch at once."""
        self._unready = UnreadySink.LEFT

    @property
    def is_one(self) -> bool:
        """Whether one thing has gone wrong, and nothing else."""
        return len(self._errors) == 1

    def first_to_tell(self) -> BaseException | None:
        """The first that is not left; what is left is noted."""
        return next(iter([error for error in self._errors if not self._is_left(error)]), None)

    def are_of_the_storage(self) -> bool:
        """Whether one of them says by itself that the folder cannot be written."""
        return any(isinstance(each, TidegateError) and is_of_the_storage(each) for each in self._errors)

    def _is_left(self, error: BaseException) -> bool:
        if self._unready is UnreadySink.LEFT and is_of_an_unready_sink(error):
            self.left_behind = self.left_behind or error
            return True
        return False


_TO_BE_DECIDED = frozenset(code for code in Code if code.remedy is Remedy.DECIDE)
"""What may end an epoch, and a new start would only find again."""


def is_of_the_storage(error: BaseException) -> bool:
    """Whether a durable record could not be written. A sync that failed is not among them: what the disk lost then
    may be of any record, and nothing here would say so a second time."""
    if is_of_a_failed_sync(error):
        return False
    if isinstance(error, TidegateError):
        return error.catalogue_entry in (Code.STORAGE_FULL, Code.STORAGE_UNUSABLE)
    return isinstance(error, OSError)


def is_told_in_any_case(error: BaseException) -> bool:
    """Whether somebody has to hear of it although the job was to end: a sink that was not ready, or what a new start
    would only find again."""
    to_be_decided = isinstance(error, TidegateError) and error.catalogue_entry in _TO_BE_DECIDED
    return to_be_decided or is_of_an_unready_sink(error)
