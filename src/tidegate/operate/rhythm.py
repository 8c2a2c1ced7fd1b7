"""How often the processes of a job look into its folder, or write what is only shown."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.storages.schemes import Folder, Where


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """Seconds between two looks or two writes of each thread. `request`: between two looks of a process that waits for
    the answer to a request, or for a first beat. `watch`: the same for the newest beat of a job that runs.
    """

    beat: float
    desk: float
    history: float
    retained: float
    request: float
    watch: float


_ON_A_DISK = Rhythm(beat=1.0, desk=0.2, history=1.0, retained=0.25, request=0.05, watch=0.0)
_BY_REQUESTS = Rhythm(beat=10.0, desk=7.5, history=10.0, retained=5.0, request=1.0, watch=15.0)
"""Where each look is a request to a server, an idle job sends at most 30 of them a minute, with those of its lease and
of its supervisor.
"""


def rhythm_of(job_folder: Where) -> Rhythm:
    """The rhythm of a job in this folder."""
    return _ON_A_DISK if Folder.of(job_folder).is_local else _BY_REQUESTS
