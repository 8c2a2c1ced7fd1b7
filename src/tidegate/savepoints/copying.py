"""Progress of the copy of one savepoint, and the request to abort it."""

from __future__ import annotations

import threading

from tidegate.core.errors import Code, TidegateError


class Copying:
    """Shared by the thread that copies and by any others. `what` names the savepoint."""

    def __init__(self, what: str = "the savepoint") -> None:
        self._what = what
        self.total_bytes = 0
        """Bytes to copy; 0 until the number is known."""
        self.copied_bytes = 0
        self.called_off = threading.Event()
        self.appears = False
        """True if the savepoint has its name, or gets it next: it can no longer be aborted."""
        self._why = ""
        self._deciding = threading.Lock()
        self._counting = threading.Lock()

    # --- for watchers --------------------------------------------------------------------------------------

    def call_off(self, why: str) -> bool:
        """Nothing more is copied from the next block on, and no savepoint appears. False where it does already."""
        with self._deciding:
            if not self.appears and not self.called_off.is_set():
                self._why = why
                self.called_off.set()
            return not self.appears

    def cut_off(self) -> TidegateError:
        """What is to be said of a savepoint that was called off."""
        far = f"when {self.copied_bytes} of {self.total_bytes} bytes were copied" if self.total_bytes else "before that"
        next_step = "start the job, and take it again; `tidegate stop JOB -p` ends a job with a savepoint"
        return self._error(f"{self._why}, {far}: nothing of it stays", next_step)

    def hung(self) -> TidegateError:
        """What is to be said of one that gets its name, and whose disk does not answer."""
        found = "the disk does not answer since it gets its name: it may be there, or not"
        return self._error(found, "look for it (`tidegate savepoint ls`); if it is not there, take it again")

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
        """Raises SAVEPOINT_CUT_OFF when it was called off."""
        if self.called_off.is_set():
            raise self.cut_off()

    def copied(self, size_bytes: int) -> None:
        """So much more is copied, by any thread. Raises SAVEPOINT_CUT_OFF when it was called off."""
        with self._counting:
            self.copied_bytes += size_bytes
        self.go_on()

    def appear(self) -> None:
        """The savepoint gets its name next; or raises SAVEPOINT_CUT_OFF."""
        with self._deciding:
            self.go_on()
            self.appears = True
