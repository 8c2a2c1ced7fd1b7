"""Rules of the protocol, each broken by one line: what the small world must catch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """One textual patch of a file in `core/`, and the part of the world that must catch it."""

    name: str
    rule: str
    file: str
    old: str
    new: str
    family: str
    configuration: str
    stride: int = 1


PLANTED = (
    PlantedBug(
        name="decided is what the commits file says",
        rule="1: decided is never `the file commits/N exists`",
        file="ledger.py",
        old="        if parse_commits((yield from get(entry(COMMITS, number)))) is not None:\n",
        new="        if (yield from get(entry(COMMITS, number))) is not None:\n",
        family="single",
        configuration="stateless-kf",
    ),
    PlantedBug(
        name="the newest run counts, whatever the state ids say",
        rule="step 5: the record whose state ids equal those in commits/N",
        file="finish.py",
        old="    return prepared.state_ids == commits.state_ids and offsets in (None, prepared.offsets)\n",
        new="    return offsets in (None, prepared.offsets)\n",
        family="stall",
        configuration="short-stateful-remote",
        stride=7,
    ),
    PlantedBug(
        name="Spark's log is not restored",
        rule="2: offsets/N and commits/N are made equal to decided/N",
        file="recovery_plan.py",
        old="            if found.log[folder].get(epoch) != right:\n",
        new="            if False and found.log[folder].get(epoch) != right:\n",
        family="single",
        configuration="stateful-sk",
    ),
    PlantedBug(
        name="offsets beyond the next epoch are left",
        rule="2: an offsets/M with M > newest decided + 1 is renamed aside",
        file="recovery_plan.py",
        old="    beyond = {epoch for epoch in offsets if epoch > found.newest + 1}\n",
        new="    beyond: set[int] = set()\n",
        family="single",
        configuration="stateless-kf",
    ),
    PlantedBug(
        name="a due epoch is not added",
        rule="10: a no-data epoch that is due is forgotten by Spark at a restart",
        file="recovery_plan.py",
        old="        plan.extend(due_epoch(newest))\n",
        new="        pass\n",
        family="single",
        configuration="windowed-sk",
    ),
    PlantedBug(
        name="look before fence",
        rule="4: fence, then look at the evidence, then write",
        file="finish.py",
        old=(
            "    yield FenceTransaction(sink, committable)\n"
            "    fenced = TRANSACTION.next(TransactionState.SUSPECT, TransactionEvent.FENCE_RAISED)\n"
            "    evidence = yield from look_for_evidence(sink, committable)\n"
        ),
        new=(
            "    evidence = yield from look_for_evidence(sink, committable)\n"
            "    yield FenceTransaction(sink, committable)\n"
            "    fenced = TRANSACTION.next(TransactionState.SUSPECT, TransactionEvent.FENCE_RAISED)\n"
        ),
        family="redo",
        configuration="short-stateful-remote",
    ),
    PlantedBug(
        name="finished is not read again before a redo",
        rule="4: after fence and look, done and finished_through are read again",
        file="finish.py",
        old="    yield from _stop_if_finished_by_others(query, run, committable.attempt.epoch)\n",
        new="    yield from ()\n",
        family="stall",
        configuration="stateful-sf-remote",
        stride=7,
    ),
    PlantedBug(
        name="what Spark wrote is not synced",
        rule="step 3: the driver syncs what Spark did not",
        file="epoch.py",
        old="    yield SyncCheckpoint()\n",
        new="",
        family="single",
        configuration="stateful-sk",
    ),
    PlantedBug(
        name="no prepared record of an epoch without rows",
        rule="step 3: prepared/N.R for every epoch, also one without rows",
        file="epoch.py",
        old=('    created = yield from put_if_absent(prepared_name(epoch, run.run), encode(record), "prepared")\n'),
        new=(
            "    created = not record.committables or (\n"
            '        yield from put_if_absent(prepared_name(epoch, run.run), encode(record), "prepared")\n'
            "    )\n"
        ),
        family="single",
        configuration="stateless-kf",
    ),
    PlantedBug(
        name="prepared before the sync",
        rule="step 3: what Spark did not sync is durable before prepared",
        file="epoch.py",
        old="    yield SyncCheckpoint()\n",
        new="    if epoch == 0:\n        yield SyncCheckpoint()\n",
        family="single",
        configuration="stateful-sk",
    ),
    PlantedBug(
        name="a superseded finisher goes on",
        rule="6: a driver that notices a newer run stops, also while it finishes old epochs",
        file="ledger.py",
        old="    return (yield from get(entry(RUNS, run.run + 1))) is not None\n",
        new="    return (yield from get(entry(RUNS, run.run + 1))) is not None and run.run > 1000\n",
        family="redo",
        configuration="short-stateful-remote",
    ),
    PlantedBug(
        name="an epoch does not wait for the finisher",
        rule="at most max_concurrent decided epochs may be unfinished",
        file="epoch.py",
        old="    finished = yield from await_finished(epoch - query.max_concurrent)\n",
        new="    finished = yield from await_finished(-1)\n",
        family="single",
        configuration="stateless-kf",
    ),
    PlantedBug(
        name="epochs below are not decided at the start of an epoch",
        rule="6: at the start of epoch M every epoch below M is decided",
        file="epoch.py",
        old="        yield from decide_and_look(query, run, older)\n",
        new="        yield from ()\n",
        family="single",
        configuration="stateless-sf",
    ),
    PlantedBug(
        name="undecided journals go without the lease",
        rule="13: journals of undecided epochs go at recovery, under the local lease only",
        file="recover.py",
        old="    if query.local_lease:\n",
        new="    if query is not None:\n",
        family="stall",
        configuration="short-stateful-remote",
        stride=7,
    ),
    PlantedBug(
        name="open transactions are left open",
        rule="5: what is open under our names and named by no decided record is aborted",
        file="recover.py",
        old="            yield AbortOpen(sink, orphans)\n",
        new="",
        family="single",
        configuration="stateful-sk-remote",
    ),
    PlantedBug(
        name="finished is finished_through alone",
        rule="step 7: finished is the larger of finished_through and the newest done",
        file="ledger.py",
        old="    return max([start.first_epoch - 1, *done, *([] if record is None else [record.epoch])])\n",
        new="    return max([start.first_epoch - 1, *([] if record is None else [record.epoch])])\n",
        family="stall",
        configuration="stateful-sf-remote",
        stride=7,
    ),
    PlantedBug(
        name="a torn entry stays",
        rule="2: a torn file is renamed aside",
        file="recovery_plan.py",
        old=("    if offsets is None or found.places not in (None, len(offsets.positions)):\n        return False\n"),
        new="    if offsets is None:\n        return True\n",
        family="single",
        configuration="stateful-sk",
    ),
    PlantedBug(
        name="what is undecided is given up before the decided epochs are finished",
        rule="recovery: every decided epoch is finished, then what is undecided is given up",
        file="recover.py",
        old="    yield from _check_sinks(query, run, newest)\n",
        new=(
            "    yield from _check_sinks(query, run, newest)\n"
            "    yield from _give_up_undecided(query, (yield from read_finished()))\n"
        ),
        family="single",
        configuration="stateful-sk",
    ),
    PlantedBug(
        name="an epoch that was cut off has the same time again",
        rule="an epoch that takes longer than checkpointing.timeout is not cut off for ever",
        file="epoch_time.py",
        old="    return max(timeout_seconds, min(tried_seconds * GROWTH, timeout_seconds * MOST_TIMES))\n",
        new="    return max(timeout_seconds, min(tried_seconds, timeout_seconds * MOST_TIMES))\n",
        family="single",
        configuration="slow-sk",
        stride=41,
    ),
    PlantedBug(
        name="what is kept of the tries stays when the epoch is done",
        rule="records of an epoch that was cut off go when it is done, or at the next start",
        file="epoch_time.py",
        old="        if epoch <= finished:\n            yield Delete",
        new="        if epoch < finished:\n            yield Delete",
        family="single",
        configuration="slow-sk",
        stride=41,
    ),
)
