"""The supervisor's side of the request desk: receives a stop or a cancel while no driver can.

A driver reads requests only when its start has no more obstacles. If its broker is down, no start gets that far.
So a command that is to end such a job sends its request to the supervisor. The first of the two processes that receives
the request executes it.
"""

from __future__ import annotations

import time

from tidegate.core.errors import TidegateError
from tidegate.operate.beat import Incarnation
from tidegate.operate.control import ENDS_A_JOB, Answer, Desk, Kind, Outcome, Request
from tidegate.storages.schemes import Folder


class Porter:
    """Reads and answers the requests to this supervisor. If the requests cannot be read, `asked` returns None: the job
    continues, and the next call reads again."""

    def __init__(self, job_folder: Folder, mine: Incarnation) -> None:
        self._desk = Desk(job_folder)
        self._mine = mine

    def asked(self) -> Kind | None:
        """The request to end the job; a cancel has priority over a stop. None without a request."""
        kinds = {request.kind for request in self._open()}
        return next((kind for kind in (Kind.CANCEL, Kind.STOP) if kind in kinds), None)

    def answer(self, outcome: Outcome, detail: str) -> None:
        """Give all open requests this answer. Call it when the job will not be restarted. If an answer cannot be
        written, the waiting command takes the end of this process as the answer.
        """
        for request in self._open():
            try:
                self._desk.answer(
                    Answer(id=request.id, kind=request.kind, outcome=outcome, detail=detail, at=time.time())
                )
            except TidegateError:
                return

    def _open(self) -> list[Request]:
        try:
            found = self._desk.open_requests(time.time())
        except TidegateError:
            return []
        return [request for request in found if request.to == self._mine and request.kind in ENDS_A_JOB]
