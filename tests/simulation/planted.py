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
        name="decided may be overwritten",
        rule="step 5: put-if-absent; everybody obeys the record that won",
        file="finish.py",
        old='    created = yield from put_if_absent(entry(DECIDED, epoch), encode(record), "decision")\n',
        new='    created = True\n    yield Replace(entry(DECIDED, epoch), encode(record), "decision")\n',
        family="stall",
        configuration="stateless-sk-remote",
        stride=5,
    ),
    PlantedBug(
        name="Spark's log is not restored",
        rule="2: offsets/N and commits/N are made equal to decided/N",
        file="recover.py",
        old="            if found.log[folder].get(epoch) != right:\n",
        new="            if False and found.log[folder].get(epoch) != right:\n",
        family="single",
        configuration="stateful-sk",
    ),
    PlantedBug(
        name="offsets beyond the next epoch are left",
        rule="2: an offsets/M with M > newest decided + 1 is renamed aside",
        file="recover.py",
        old="    beyond = {epoch for epoch in offsets if epoch > found.newest + 1}\n",
        new="    beyond: set[int] = set()\n",
        family="single",
        configuration="stateless-kf",
    ),
    PlantedBug(
        name="a due epoch is not added",
        rule="10: a no-data epoch that is due is forgotten by Spark at a restart",
        file="recover.py",
        old="        plan.extend(_due_epoch(newest))\n",
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
        family="stall",
        configuration="short-stateful-remote",
        stride=7,
    ),
    PlantedBug(
        name="finished is not read again before a redo",
        rule="4: after fence and look, done and finished_through are read again",
        file="finish.py",
        old="    yield from _stop_if_finished_by_others(query, run, committable.attempt.epoch)\n",
        new="    yield from ()\n",
        family="stall",
        configuration="purged-sk-remote",
        stride=3,
    ),
    PlantedBug(
        name="a late decision stands",
        rule="step 5: at or below finished_through the put came too late, the record is removed",
        file="finish.py",
        old="    if (yield from read_finished()) >= epoch:\n        if created:\n",
        new="    if False:\n        if created:\n",
        family="stall",
        configuration="purged-sk-remote",
        stride=3,
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
        old="    if newest > run.run:\n",
        new="    if newest > run.run + 1000:\n",
        family="stall",
        configuration="short-stateful-remote",
        stride=7,
    ),
    PlantedBug(
        name="an epoch does not wait for the finisher",
        rule="at most max_concurrent decided epochs may be unfinished",
        file="epoch.py",
        old="        yield AwaitFinished(epoch - query.max_concurrent)\n",
        new="        yield from ()\n",
        family="single",
        configuration="stateful-sk",
    ),
    PlantedBug(
        name="epochs below are not decided at the start of an epoch",
        rule="6: at the start of epoch M every epoch below M is decided",
        file="epoch.py",
        old="        yield from decide(query, older)\n",
        new="        yield from ()\n",
        family="single",
        configuration="stateless-sf",
    ),
    PlantedBug(
        name="journals of an undecided epoch go before it is finished",
        rule="5: aborting never deletes a journal",
        file="recover.py",
        old="        yield DiscardFrom(newest + 1)\n",
        new="        yield DiscardFrom(newest)\n",
        family="single",
        configuration="stateful-sk",
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
        configuration="purged-sk-remote",
        stride=3,
    ),
    PlantedBug(
        name="Spark may run a finished epoch again",
        rule="step 7: an epoch at or below finished is never computed again",
        file="epoch.py",
        old="    if epoch <= finished:\n",
        new="    if epoch < finished - 1000:\n",
        family="stall",
        configuration="short-stateful-remote",
        stride=7,
    ),
    PlantedBug(
        name="a torn entry stays",
        rule="2: a torn file is renamed aside",
        file="recover.py",
        old="        return offsets is not None\n",
        new="        return True\n",
        family="single",
        configuration="stateful-sk",
    ),
    PlantedBug(
        name="what another run wrote meanwhile stays aside",
        rule="2: it is looked at again, and put back by create-if-absent",
        file="recover.py",
        old="    if data is not None and data != seen:\n",
        new="    if False:\n",
        family="stall",
        configuration="stateful-sk-remote",
    ),
    PlantedBug(
        name="a run repairs the log by decisions it took before",
        rule="2, with a run that still lives: the log is read first, then the decisions",
        file="recover.py",
        old=(
            '            entries[number] = b"" if data is None else data\n'
            "    newest, _ = yield from _settle_decisions(query)\n"
        ),
        new=(
            '            entries[number] = b"" if data is None else data\n'
            "    newest, _ = (yield from read_finished()), None\n"
        ),
        family="stall",
        configuration="short-stateful-remote",
        stride=7,
    ),
)
