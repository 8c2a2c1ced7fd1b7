"""The simulation proves itself: rules of the protocol and traps of the sinks, each broken by a few lines.

A bug is a textual patch in a copy of the packages; its seeds run there. Every one must be caught.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tidegate

TESTS: Final = Path(__file__).parents[1]
COPIED: Final = {
    "tidegate": Path(tidegate.__file__).parent,
    "tests/world": TESTS / "world",
    "tests/simulator": TESTS / "simulator",
}
"""What a simulation runs, by its place in the copy."""


@dataclass(frozen=True, slots=True)
class Patch:
    """`old`, which stands exactly once in `file` (below the copy), becomes `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """A broken rule. `seeds` are as many as its share needs; `near` is a seed just below one that catches it."""

    name: str
    rule: str
    patches: tuple[Patch, ...]
    seeds: int = 400
    near: int = 0


@dataclass(frozen=True, slots=True)
class Caught:
    """Which seeds catch a bug, and what the first one sees."""

    bug: PlantedBug
    seeds: int
    bad: dict[str, str]

    @property
    def first(self) -> str:
        return min(self.bad, key=int) if self.bad else "-"

    def line(self) -> str:
        share = 100 * len(self.bad) / self.seeds
        seen = self.bad.get(self.first, "NOT CAUGHT")[:70]
        return f"{self.bug.name:58} {self.bug.rule:12} {self.seeds:6} {share:7.2f} % {self.first:>6}  {seen}"

    def as_json(self) -> dict[str, object]:
        counts = {"seeds": self.seeds, "caught": len(self.bad), "first": self.first}
        return {"name": self.bug.name, "rule": self.bug.rule, **counts, "seen": self.bad.get(self.first)}


def chosen(bugs: Sequence[PlantedBug], name: str) -> list[PlantedBug]:
    """The bugs whose names contain `name`; all for an empty one."""
    return [bug for bug in bugs if name in bug.name]


def try_bug(
    bug: PlantedBug, *, first: int = 0, seeds: int | None = None, processes: int = 2, stop: bool = False
) -> Caught:
    """Run seeds with the bug in place, in a process of its own; with `stop` not many after the first bad one."""
    count = bug.seeds if seeds is None else seeds
    with tempfile.TemporaryDirectory(prefix="tidegate-planted-") as folder:
        for name, package in COPIED.items():
            shutil.copytree(package, Path(folder) / name, ignore=shutil.ignore_patterns("__pycache__"))
        plant(bug, Path(folder))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.simulator", "--json", "--processes", str(processes)),
                *("--first", str(first), "--seeds", str(count)),
                *(["--stop"] if stop else []),
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{bug.name}: the simulation itself failed\n{done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    return Caught(bug, result["seeds"], result["bad"])


def plant(bug: PlantedBug, copy: Path) -> None:
    """Apply the patches of a bug to a copy of the packages."""
    for patch in bug.patches:
        file = copy / patch.file
        text = file.read_text(encoding="utf-8")
        if text.count(patch.old) != 1:
            raise ValueError(f"{bug.name}: {patch.file} has these lines {text.count(patch.old)} times:\n{patch.old}")
        file.write_text(text.replace(patch.old, patch.new), encoding="utf-8")


def _bug(
    name: str, rule: str, file: str, old: str, new: str, *more: Patch, seeds: int = 400, near: int = 0
) -> PlantedBug:
    return PlantedBug(name=name, rule=rule, patches=(Patch(file, old, new), *more), seeds=seeds, near=near)


_KAFKA: Final = "tests/simulator/kafka.py"
_SLOTS: Final = "tests/simulator/slots.py"
_BRANCHES: Final = "tests/simulator/branches.py"
_DRIVER: Final = "tests/simulator/driver.py"
_SWARM: Final = "tests/simulator/swarm.py"
_PLAN: Final = "tests/simulator/plan.py"
_SINKS: Final = "tests/world/sinks.py"
_EPOCH: Final = "tidegate/core/epoch.py"
_FINISH: Final = "tidegate/core/finish.py"
_STEADILY: Final = "tidegate/core/finish_steadily.py"
_LEDGER: Final = "tidegate/core/ledger.py"
_RECOVER: Final = "tidegate/core/recover.py"
_RECOVERY_PLAN: Final = "tidegate/core/recovery_plan.py"
_SEAL: Final = "tidegate/core/seal.py"

PLANTED: Final = (
    # --- the order of the steps
    _bug("what Spark wrote is not synced", "step 3", _EPOCH, "    yield SyncCheckpoint()\n", "", near=60),
    _bug(
        "no prepared record of an epoch without rows",
        "step 3",
        _EPOCH,
        '    created = yield from put_if_absent(prepared_name(epoch, run.run), encode(record), "prepared")\n',
        "    created = not record.committables or (\n"
        '        yield from put_if_absent(prepared_name(epoch, run.run), encode(record), "prepared")\n'
        "    )\n",
    ),
    _bug(
        "prepared is not durable",
        "step 3",
        _DRIVER,
        "    created = part.disk.put_if_absent(effect.name, effect.data)\n",
        '    created = effect.point != "prepared" and part.disk.put_if_absent(effect.name, effect.data)\n'
        '    if effect.point == "prepared":\n'
        "        created = True\n"
        "        part.disk.write(effect.name, effect.data)\n",
        seeds=2000,
        near=180,
    ),
    _bug(
        "an epoch does not wait for the finisher",
        "step 6",
        _EPOCH,
        "    finished = yield from await_finished(epoch - query.max_concurrent)\n",
        "    finished = yield from await_finished(-1)\n",
    ),
    _bug(
        "finished is finished_through alone",
        "step 7",
        _LEDGER,
        "    return max([start.first_epoch - 1, *done, *([] if record is None else [record.epoch])])\n",
        "    return max([start.first_epoch - 1, *([] if record is None else [record.epoch])])\n",
        seeds=2000,
        near=140,
    ),
    # --- the rules
    _bug(
        "decided is what the commits file says",
        "rule 1",
        _LEDGER,
        "        if parse_commits((yield from get(entry(COMMITS, number)))) is not None:\n",
        "        if (yield from get(entry(COMMITS, number))) is not None:\n",
        near=70,
    ),
    _bug(
        "Spark's log is not restored",
        "rule 2",
        _RECOVERY_PLAN,
        "            if found.log[folder].get(epoch) != right:\n",
        "            if False and found.log[folder].get(epoch) != right:\n",
    ),
    _bug(
        "offsets beyond the next epoch are left",
        "rule 2",
        _RECOVERY_PLAN,
        "    beyond = {epoch for epoch in offsets if epoch > found.newest + 1}\n",
        "    beyond: set[int] = set()\n",
        seeds=2000,
        near=270,
    ),
    _bug(
        "a torn entry stays",
        "rule 2",
        _RECOVERY_PLAN,
        "    offsets = parse_offsets(following)\n",
        "    offsets = parse_offsets(following)\n    if offsets is None:\n        return True\n",
    ),
    _bug(
        "a torn entry of a source's own log stays",
        "rule 2",
        _RECOVERY_PLAN,
        "    broken = _broken_sources(found)\n",
        "    broken: dict[int, int] = {}\n",
        near=120,
    ),
    _bug(
        "evidence is whatever stands under the name",
        "rule 3",
        _KAFKA,
        "        if standing == committable:\n",
        "        if standing is not None:\n",
        near=40,
    ),
    _bug(
        "no evidence in the transaction",
        "rule 3",
        _KAFKA,
        "            self.groups[name] = known.evidence\n",
        "            pass\n",
    ),
    _bug(
        "one evidence key for all writers of a sink",
        "rule 3",
        _KAFKA,
        "            self.groups[name] = known.evidence\n",
        '            self.groups[name.rsplit(".", 3)[0]] = known.evidence\n',
        Patch(
            _KAFKA,
            "        standing = self.broker.groups.get(_id(committable))\n",
            '        standing = self.broker.groups.get(_id(committable).rsplit(".", 3)[0])\n',
        ),
    ),
    _bug(
        "SQLite without its ledger row",
        "rule 3",
        _SINKS,
        "        self.table.ledger[key] = tuple(committables)\n",
        "",
    ),
    _bug(
        "look before fence",
        "rule 4",
        _FINISH,
        "    yield FenceTransaction(sink, committable)\n"
        "    fenced = TRANSACTION.next(TransactionState.SUSPECT, TransactionEvent.FENCE_RAISED)\n"
        "    evidence = yield from look_for_evidence(sink, committable)\n",
        "    evidence = yield from look_for_evidence(sink, committable)\n"
        "    yield FenceTransaction(sink, committable)\n"
        "    fenced = TRANSACTION.next(TransactionState.SUSPECT, TransactionEvent.FENCE_RAISED)\n",
        seeds=16000,
        near=10800,
    ),
    _bug(
        "finished is not read again before a redo",
        "rule 4",
        _FINISH,
        "    yield from _stop_if_finished_by_others(query, run, committable.attempt.epoch)\n",
        "    yield from ()\n",
        seeds=2000,
    ),
    _bug(
        "no journal for a redo",
        "rule 4",
        _KAFKA,
        "self._committable(attempt, rows, self._keep(attempt, rows), 0)",
        "self._committable(attempt, rows, None, 0)",
    ),
    _bug(
        "the journal is not synced",
        "rule 4",
        _SINKS,
        "        self._disk.put(name, rows)\n",
        "        self._disk.write(name, rows)\n",
        near=100,
    ),
    _bug(
        "open transactions are left open",
        "rule 5",
        _RECOVER,
        "            yield AbortOpen(sink, orphans)\n",
        "",
    ),
    _bug(
        "aborting deletes the journal",
        "rule 5",
        _KAFKA,
        "                self._abort_one(name, attempt)\n",
        "                self._abort_one(name, attempt)\n"
        '                self._disk.delete(f"{self._stage(attempt.epoch)}/{attempt.name}")\n',
        seeds=2000,
        near=20,
    ),
    _bug(
        "epochs below are not decided at the start of an epoch",
        "rule 6",
        _EPOCH,
        "        yield from decide_and_look(query, run, older)\n",
        "        yield from ()\n",
        seeds=2000,
        near=30,
    ),
    _bug(
        "a superseded run goes on",
        "rule 6",
        _LEDGER,
        "    return (yield from get(entry(RUNS, run.run + 1))) is not None\n",
        "    return (yield from get(entry(RUNS, run.run + 1))) is not None and run.run > 1000\n",
        seeds=2000,
        near=10,
    ),
    _bug(
        "the evidence key of a branch lacks the attempt",
        "rule 7",
        _BRANCHES,
        "    return attempt.sink.generation, attempt.epoch, attempt.name\n",
        "    return attempt.sink.generation, attempt.epoch, attempt.task\n",
        near=100,
    ),
    _bug(
        "a producer epoch is used again",
        "rule 8",
        _KAFKA,
        "        return self.broker.init_producer(name)\n\n    def write",
        "        known = self.broker.ids.get(name)\n"
        "        return self.broker.init_producer(name) if known is None else known.producer\n\n    def write",
        seeds=2000,
        near=100,
    ),
    _bug(
        "the newest run counts, whatever the state ids say",
        "rule 9",
        _FINISH,
        "    return prepared.state_ids == commits.state_ids and offsets in (None, prepared.offsets)\n",
        "    return offsets in (None, prepared.offsets)\n",
        seeds=2000,
        near=20,
    ),
    _bug(
        "a due epoch is not added",
        "rule 10",
        _RECOVERY_PLAN,
        "        plan.extend(due_epoch(newest))\n",
        "        pass\n",
        near=210,
    ),
    _bug(
        "positions are not checked",
        "rule 11",
        _EPOCH,
        "        if not same_position(end, start) or goes_back(end, now):\n",
        "        if False and (not same_position(end, start) or goes_back(end, now)):\n",
        near=10,
    ),
    _bug(
        "a new run before the old stream thread has ended",
        "rule 12",
        _DRIVER,
        "        return all(part.stream_has_ended() for part in self.parts) and "
        "all(part.has_ended() for part in self.parts)\n",
        "        return any(part.errors() for part in self.parts) or all(part.has_ended() for part in self.parts)\n",
        seeds=4000,
        near=120,
    ),
    _bug(
        "undecided journals go without the lease",
        "rule 13",
        _RECOVER,
        "    if query.local_lease:\n",
        "    if query is not None:\n",
        seeds=2000,
        near=50,
    ),
    _bug(
        "what is undecided goes before the decided is finished",
        "recovery",
        _RECOVER,
        "    yield from _check_sinks(query, run, newest)\n",
        "    yield from _check_sinks(query, run, newest)\n"
        "    yield from _give_up_undecided(query, (yield from read_finished()))\n",
    ),
    _bug(
        "a generation opens before the older one is finished",
        "generation",
        _DRIVER,
        "            yield from seal_generation(part.query)\n        yield self",
        "            yield Until('skipped', lambda: True)\n        yield self",
        near=30,
    ),
    _bug(
        "a generation opens without a seal on the older one",
        "seal",
        _SEAL,
        '        if (yield from put_if_absent(entry(DECIDED, last + 1), encode(Sealed(epoch=last + 1)), "seal")):\n',
        "        if True:\n",
        seeds=4000,
        near=20,
    ),
    _bug(
        "a seal that came second counts",
        "seal",
        _SEAL,
        '        if (yield from put_if_absent(entry(DECIDED, last + 1), encode(Sealed(epoch=last + 1)), "seal")):\n',
        '        if [(yield from put_if_absent(entry(DECIDED, last + 1), encode(Sealed(epoch=last + 1)), "seal"))]:\n',
        seeds=4000,
        near=6570,
    ),
    _bug(
        "what is decided below a seal is left unfinished",
        "seal",
        _SEAL,
        "    run, _ = yield from finish_with_a_run(query)\n    last = yield from read_finished()\n",
        "    run, _ = yield from finish_with_a_run(query, -1)\n"
        "    last = max((yield from numbers(DECIDED)), default=-1)\n",
        seeds=4000,
        near=70,
    ),
    _bug(
        "the clean-up of an older driver removes the seal",
        "seal",
        _FINISH,
        "    for folder in (DECIDED, DONE):\n",
        "    for number in (yield from numbers(DECIDED)):\n"
        "        if number > finished:\n"
        "            yield Delete(entry(DECIDED, number), 'gc.record')\n"
        "    for folder in (DECIDED, DONE):\n",
        seeds=4000,
        near=1500,
    ),
    _bug(
        "no lock of the JVM",
        "one driver",
        _SWARM,
        "any(driver.python.alive or driver.jvm.alive for driver in self.drivers)",
        "any(driver.python.alive for driver in self.drivers)",
        seeds=4000,
        near=19740,
    ),
    # --- the looks that a living run leaves out
    _bug(
        "no look for a newer run after the own decision",
        "few requests",
        _STEADILY,
        "        if (yield from has_successor(run)):\n",
        "        if False and (yield from has_successor(run)):\n",
        seeds=4000,
        near=200,
    ),
    _bug(
        "the own prepared record counts, whatever the state ids say",
        "few requests",
        _STEADILY,
        " or not matches(own, whole_offsets, logged):\n",
        ":\n",
        seeds=4000,
        near=40,
    ),
    _bug(
        "the records of a run count as those of its successor",
        "few requests",
        _DRIVER,
        "        self.written: dict[str, bytes] = {}\n",
        '        self.written: dict[str, bytes] = driver.world.__dict__.setdefault(f"written {index}", {})\n',
        seeds=4000,
        near=1910,
    ),
    _bug(
        "records go while Spark keeps its log",
        "few requests",
        _STEADILY,
        "            return\n        yield DeleteAll(",
        "            pass\n        yield DeleteAll(",
        seeds=4000,
        near=1850,
    ),
    # --- a log that a late driver overwrites
    _bug(
        "prepared says what Spark's log says and not what was computed",
        "overwritten",
        _EPOCH,
        "    if not _same_positions(own.ends, offsets.positions) or own.watermark_ms != offsets.watermark_ms:\n",
        "    if False:\n",
        seeds=4000,
    ),
    _bug(
        "a run does not look on which state it stands",
        "overwritten",
        _EPOCH,
        "    if logged is not None and own.base_ids != logged.state_ids:\n",
        "    if False:\n",
        seeds=4000,
    ),
    _bug(
        "a run does not look where its last epoch was decided to end",
        "overwritten",
        _EPOCH,
        "    if ended is not None and starts is not None and not _same_positions(starts, ended.positions):\n",
        "    if False:\n",
        seeds=4000,
        near=1700,
    ),
    _bug(
        "overwritten offsets of a prepared epoch are a hole",
        "overwritten",
        _FINISH,
        "    says_something = query.local_lease and parse_offsets(offsets) is not None\n",
        "    says_something = parse_offsets(offsets) is not None\n",
        seeds=4000,
    ),
    # --- the sinks' traps
    _bug(
        "FENCED is taken for success",
        "Kafka",
        _KAFKA,
        "        if reply is Reply.NONE:\n",
        "        if reply in (Reply.NONE, Reply.FENCED):\n",
        near=20,
    ),
    _bug(
        "a forgotten id is taken for success",
        "Kafka",
        _KAFKA,
        "        if reply is Reply.NONE:\n",
        "        if reply in (Reply.NONE, Reply.NO_MAPPING):\n",
        seeds=4000,
        near=100,
    ),
    _bug(
        "an aborted transaction is taken for success",
        "Kafka",
        _KAFKA,
        "        if reply is Reply.NONE:\n",
        "        if reply in (Reply.NONE, Reply.INVALID_STATE):\n",
        seeds=4000,
    ),
    _bug(
        "expired evidence is taken for none",
        "Kafka",
        _KAFKA,
        '        return Evidence.ABSENT if str(self.broker.era) == committable.handle["era"] else Evidence.UNKNOWN\n',
        "        return Evidence.ABSENT\n",
        seeds=4000,
        near=520,
    ),
    _bug(
        "partitions are not compared before the task returns",
        "Kafka",
        _KAFKA,
        "        if not self.broker.holds_rows(lease.name, lease.producer or 0):\n",
        "        if False and not self.broker.holds_rows(lease.name, lease.producer or 0):\n",
        seeds=4000,
        near=100,
    ),
    _bug(
        "no state file of a slot",
        "Kafka",
        _SLOTS,
        "        self.turn.used = attempt.sink.generation, attempt.run, attempt.epoch\n",
        "        pass\n",
    ),
    _bug(
        "a turn is taken whether its epoch is finished or not",
        "Kafka",
        _SLOTS,
        "        return (generation, run) < (attempt.sink.generation, attempt.run) or epoch <= finished\n",
        "        return (generation, run, epoch, finished) is not None\n",
    ),
    _bug(
        "two epochs at once into a sink whose rows have their place",
        "Kafka",
        _PLAN,
        "        max_concurrent=1 if placed else rng.choice((1, 2)),\n",
        "        max_concurrent=2,\n",
        seeds=2000,
    ),
    _bug(
        "an unknown branch is taken for committed",
        "database",
        _BRANCHES,
        '            return Answer(outcome=Outcome.LOST, detail="no such prepared branch")\n',
        '            return Answer(outcome=Outcome.ALREADY, detail="no such prepared branch")\n',
        near=20,
    ),
    _bug(
        "renamed files are not synced",
        "files",
        _SINKS,
        "        self._disk.sync_renames()\n",
        "",
        seeds=2000,
        near=180,
    ),
)
