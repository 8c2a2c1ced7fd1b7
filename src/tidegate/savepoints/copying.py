"""Progress of the copy of one savepoint, and the request to cancel it."""

from __future__ import annotations

import threading

from tidegate.core.errors import Code, TidegateError


class Copying:
    """The progress of a copy, shared by the thread that copies and other threads. `what`: the savepoint's name."""

    def __init__(self, what: str = "the savepoint") -> None:
        self._what = what
        self.total_bytes = 0
        """Bytes to copy; 0 until the number is known."""
        self.copied_bytes = 0
        self.called_off = threading.Event()
        self.appears = False
        """True if the savepoint has its final name, or is being renamed now: it can no longer be canceled."""
        self._why = ""
        self._deciding = threading.Lock()
        self._counting = threading.Lock()

    # --- for other threads ---------------------------------------------------------------------------------

    def call_off(self, why: str) -> bool:
        """Cancel the copy: it stops at the next block, and no savepoint appears. `why`: the reason, for the error.

        Returns False if the savepoint has its final name, or is being renamed now.
        """
        with self._deciding:
            if not self.appears and not self.called_off.is_set():
                self._why = why
                self.called_off.set()
            return not self.appears

    def cut_off(self) -> TidegateError:
        """The error of a canceled savepoint."""
        far = f"when {self.copied_bytes} of {self.total_bytes} bytes were copied" if self.total_bytes else "before that"
        next_step = "start the job, and take it again; `tidegate stop JOB -p` ends a job with a savepoint"
        return self._error(f"{self._why}, {far}: no part of it stays", next_step)

    def hung(self) -> TidegateError:
        """The error of a savepoint whose disk does not respond while it gets its name."""
        found = "the disk stopped responding while the savepoint got its name: it may exist or not"
        return self._error(found, "look for it (`tidegate savepoint ls`); if it does not exist, take it again")

    def _error(self, found: str, next_step: str) -> TidegateError:
        return TidegateError(
            Code.SAVEPOINT_CUT_OFF,
            expected="a job that runs until its savepoint is there",
            found=found,
            where=self._what,
            next_step=next_step,
        )

    # --- for the copy ---------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Called between two steps of the copy. Raises SAVEPOINT_CUT_OFF if the copy was canceled."""
        if self.called_off.is_set():
            raise self.cut_off()

    def copied(self, size_bytes: int) -> None:
        """Count more copied bytes, from any thread. Raises SAVEPOINT_CUT_OFF if the copy was canceled."""
        with self._counting:
            self.copied_bytes += size_bytes
        self.go_on()

    def appear(self) -> None:
        """Called directly before the caller renames the complete copy to the savepoint's final name.

        From now on the copy cannot be canceled. Raises SAVEPOINT_CUT_OFF if it was canceled before.
        """
        with self._deciding:
            self.go_on()
            self.appears = True
