"""The supervisor's side of the desk: hears of a stop or a cancel while no driver is there that could.

A driver comes to its desk when nothing stands against its start any more. One whose broker is down never gets there,
in no start; so who wants the end of such a job asks its supervisor, and whichever of the two gets to it first obeys.
"""

from __future__ import annotations

import time
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.operate.beat import Incarnation
from tidegate.operate.control import ENDS_A_JOB, Answer, Desk, Kind, Outcome, Request


class Porter:
    """Looks for the requests that are meant for this supervisor. No job ends because the disk does not answer: then
    nothing was asked, as far as can be told, and the next look may tell."""

    def __init__(self, job_folder: Path, mine: Incarnation) -> None:
        self._desk = Desk(job_folder)
        self._mine = mine

    def asked(self) -> Kind | None:
        """What the job's end was asked for with; a cancel goes before a stop."""
        kinds = {request.kind for request in self._open()}
        return next((kind for kind in (Kind.CANCEL, Kind.STOP) if kind in kinds), None)

    def answer(self, outcome: Outcome, detail: str) -> None:
        """Answer whatever stands, when the job is not started again. Who gets no answer sees this process gone."""
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
