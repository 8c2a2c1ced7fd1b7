"""The end of a generation: a seal in the place of its next decision.

How it works. A new generation begins where the older one has been finished, so nothing may be decided in the older one
from then on. A lease on a storage without locks cannot promise that: a driver that was paused may resume. So
the opener takes the next number of the older generation away, with the record that every decision needs. It puts
*decided/N* for N = the newest decided epoch plus one, create-if-absent, as a *seal*.

1. A run is claimed and every decided epoch is finished, as recovery does it.
2. *decided/N* is put as a seal. If another driver has decided N first, its epoch counts: the opener finishes it and
   tries the next number. Such a driver sees the claimed run when it looks next, and stops; so this ends.
3. From the seal on, `ledger.read_decided` raises GENERATION_SEALED at N, whatever Spark's log shows. A driver of the
   older generation that loses the put reads the seal and stops. It has committed nothing of N: before a commit it reads
   the decision.

A process may die between any two effects. Before the seal the older generation continues. Behind it a second opener
finds the seal, and has nothing to do. The seal is never removed.
"""

from __future__ import annotations

from tidegate.core.effects import Steps, get, put_if_absent
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import DECIDED, Query, entry, numbers, read_finished, stop_if_superseded
from tidegate.core.ledger_names import START
from tidegate.core.records import Sealed, Start, decode, encode, is_of_kind
from tidegate.core.recover import finish_with_a_run


def seal_generation(query: Query) -> Steps[int]:
    """Seal the generation of a query. Returns its last epoch, which is done; -1 if it has none.

    Raises the errors of a commit: the generation is then not sealed. Raises RUN_SUPERSEDED if another driver continues
    it meanwhile.
    """
    while True:
        found = yield from find_seal()
        if found is not None:
            return found.epoch - 1
        try:
            last = yield from _finish(query)
        except TidegateError as error:
            if error.catalogue_entry is not Code.GENERATION_SEALED:
                raise
            continue  # another opener was faster
        if (yield from put_if_absent(entry(DECIDED, last + 1), encode(Sealed(epoch=last + 1)), "seal")):
            return last


def _finish(query: Query) -> Steps[int]:
    """Finish what is decided. Returns the newest decided epoch; -1 for a query that has not begun. Only a restore
    begins a generation behind epoch 0, and its *start* is there before the generation counts.
    """
    data = yield from get(START)
    if data is None:
        return -1
    _demand_sinks(query, decode(Start, data, START))
    run, _ = yield from finish_with_a_run(query)
    last = yield from read_finished()
    yield from stop_if_superseded(query, run)
    return last


def _demand_sinks(query: Query, start: Start) -> None:
    """Raise RUN_SUPERSEDED for a query that has begun since the opener has read it: another driver lives, and the
    opener does not know the sinks of what it has decided.
    """
    if start.sinks != query.sinks:
        raise TidegateError(
            Code.RUN_SUPERSEDED,
            expected="a query that has not begun",
            found="its *start*: another driver has begun it meanwhile",
            where=str(query),
            next_step="start again",
        )


def find_seal() -> Steps[Sealed | None]:
    """The seal of this generation; None if it has none. Nothing is decided behind it, so it has the highest number."""
    newest = max((yield from numbers(DECIDED)), default=None)
    if newest is None:
        return None
    name = entry(DECIDED, newest)
    data = yield from get(name)
    return decode(Sealed, data, name) if data is not None and is_of_kind(Sealed, data) else None
