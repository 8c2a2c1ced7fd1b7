"""The stamp of a key says which row has written it, so that a later row replaces an earlier one and never the reverse.

A stamp is `<owner> <place>`. The *owner* is the sink of one job: job id, query, sink. The *place* puts all rows of an
owner in order: generation, epoch, run, task, task attempt, row. A run is behind the epoch, because an epoch that runs
again replaces what its earlier run has written. The attempt is behind the task: the rows of a retried task replace
those of the attempt that failed, and the last row wins in the order of tasks and rows.

Places are compared as texts, by the server: each number (0 or more) is written behind the count of its digits. All
characters are digits, so every collation of the server's locale orders them alike.

A *fence* says which run of an owner may write. A run raises it in the target before its first epoch.
"""

from __future__ import annotations

from urllib.parse import quote

from tidegate.core.records import Attempt, SinkIdentity

FORGOTTEN = "forgotten"
"""In the place of a fence, after `tidegate forget`."""


def owner_of(identity: SinkIdentity) -> str:
    """The sink of one job, over all generations. It has no space."""
    return "/".join(_quoted(each) for each in (identity.job_id, identity.query, identity.sink))


def names_of(identity: SinkIdentity) -> str:
    """The names under which the sink keeps its evidence: those of the program, without the job id."""
    return "/".join(_quoted(each) for each in (identity.job, identity.query, identity.sink))


def place_of_epoch(generation: int, epoch: int) -> str:
    return _ordered(generation, epoch)


def place_of_run(generation: int, run: int) -> str:
    """Puts the runs of all generations in order."""
    return _ordered(generation, run)


def fence_of(generation: int, run: int, run_token: str) -> str:
    """The fence of a run: its place, and a token that tells it from a run of the same number in a copied checkpoint. An
    older generation is fenced whatever its runs are.
    """
    return f"{place_of_run(generation, run)} {run_token}"


def is_before(standing: str, mine: str) -> bool:
    """True if the fence `mine` may follow the one that stands: an earlier run's, the same one, or none (empty)."""
    if standing in ("", mine):
        return True
    return standing != FORGOTTEN and _place_of(standing) < _place_of(mine)


def is_lost(standing: str, mine: str) -> bool:
    """True if a target that had the fence `mine` has an earlier one, or none: it was put back, or emptied."""
    return standing != FORGOTTEN and _place_of(standing) < _place_of(mine)


def fence_in_words(fence: str) -> str:
    """A fence for an error."""
    if fence == FORGOTTEN:
        return "that this job was forgotten (`tidegate forget`)"
    generation, run = numbers_of(_place_of(fence))
    return f"the fence of run {run} ({fence.partition(' ')[2]}) of generation {generation}"


def place_of_attempt(attempt: Attempt) -> str:
    """The begin of the places of an attempt's rows; `place_of_row` completes it."""
    return _ordered(attempt.sink.generation, attempt.epoch, attempt.run, attempt.task, attempt.task_attempt)


def place_of_row(row: int) -> str:
    digits = str(row)  # as `_ordered` does it; called for each row
    return f"{len(digits):02}{digits}"


def numbers_of(place: str) -> list[int]:
    """The numbers in a place."""
    found: list[int] = []
    while place:
        end = 2 + int(place[:2])
        found.append(int(place[2:end]))
        place = place[end:]
    return found


def _ordered(*numbers: int) -> str:
    return "".join(f"{len(str(number)):02}{number}" for number in numbers)


def _place_of(fence: str) -> str:
    return fence.partition(" ")[0]


def _quoted(name: str) -> str:
    return quote(name, safe="")
