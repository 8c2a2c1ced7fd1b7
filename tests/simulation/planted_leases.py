"""The rules of the lease of terms, each broken by a few lines in a copy of the package: the world of leases sees it.

`python -m tests.simulation.planted_leases` tries them all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import tidegate

PACKAGE: Final = Path(tidegate.__file__).parent
WORLD: Final = Path(__file__).parent / "lease_world.py"
_LEASE: Final = "lease.py"
_DECISIONS: Final = "decisions.py"


@dataclass(frozen=True, slots=True)
class PlantedLease:
    """A broken rule: in each file (below `storages/terms/`) these lines become those. `near`: just below a bad seed."""

    rule: str
    changes: tuple[tuple[str, str, str], ...]
    near: int = 0


def try_planted(bug: PlantedLease, *, first: int, seeds: int) -> str:
    """What the first bad seed says; empty if there is none."""
    with tempfile.TemporaryDirectory(prefix="tidegate-lease-") as folder:
        copy = Path(folder) / "tidegate"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for name, old, new in bug.changes:
            file = copy / "storages/terms" / name
            text = file.read_text(encoding="utf-8")
            if text.count(old) != 1:
                raise ValueError(f"{bug.rule}: {name} has these lines {text.count(old)} times:\n{old}")
            file.write_text(text.replace(old, new), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(WORLD), "--stop", "--first", str(first), "--seeds", str(seeds)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, str(WORLD.parents[2])])},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{bug.rule}: the world itself failed\n{done.stderr[-2000:]}")
    return done.stdout.splitlines()[0] if done.returncode else ""


def _planted(rule: str, *changes: tuple[str, str, str], near: int = 0) -> PlantedLease:
    return PlantedLease(rule, changes, near)


PLANTED_LEASES: Final = (
    _planted(
        "the time of a renewal is taken before its request",
        (
            _LEASE,
            "            if not is_too_late(self._sent_at, self._here.now(), self._term.timeout_seconds):\n"
            "                self._sent_at = max(self._sent_at, sent_at)\n",
            "            self._sent_at = self._here.now()\n",
        ),
    ),
    _planted(
        "the time of a take is taken before its request",
        (
            _LEASE,
            '            if newest_of(self._storage.list("")) == number:\n',
            "            held._sent_at = self._here.now()\n"
            '            if newest_of(self._storage.list("")) == number:\n',
        ),
        near=125,
    ),
    _planted(
        "a renewal that failed does not count",
        (
            _LEASE,
            "        self._storage.replace(name_of(TermBeat, self._number), encoded(beat))\n",
            "        self._sent_at = sent_at\n"
            "        self._storage.replace(name_of(TermBeat, self._number), encoded(beat))\n",
        ),
        near=390,
    ),
    _planted(
        "a renewal that is answered too late does not count",
        (
            _LEASE,
            "            if not is_too_late(self._sent_at, self._here.now(), self._term.timeout_seconds):\n",
            "            if True:\n",
        ),
        (
            _LEASE,
            "            self._loss = self._loss or loss\n",
            "            self._loss = None if loss is Loss.TOO_LATE else loss\n",
        ),
    ),
    _planted(
        "the holder gives up after two thirds",
        (
            _DECISIONS,
            "    return now - sent_at >= timeout_seconds * 2 / 3\n",
            "    return now - sent_at >= timeout_seconds\n",
        ),
        near=70,
    ),
    _planted(
        "an observer waits for the whole timeout",
        (
            _DECISIONS,
            "    if sent_at >= watched.since + look.term.timeout_seconds:\n",
            "    if sent_at >= watched.since + look.term.timeout_seconds * 2 / 3:\n",
        ),
    ),
    _planted(
        "the timeout is the holder's",
        (
            _LEASE,
            "        return proof_of(watched, sent_at, ours=ours, changes_before=changes_before)\n",
            "        own = watched.look.term\n"
            "        if own is not None:\n"
            "            from msgspec.structs import replace as change\n"
            "            from dataclasses import replace\n"
            "            own = change(own, timeout_seconds=self._timeout_seconds)\n"
            "            watched = replace(watched, look=replace(watched.look, term=own))\n"
            "        return proof_of(watched, sent_at, ours=ours, changes_before=changes_before)\n",
        ),
    ),
    _planted(
        "an observer measures on its own clock",
        (_LEASE, "            self._count += 1\n", "            self._count = int(self._here.now() * 1000)\n"),
        (
            _DECISIONS,
            "    if sent_at >= watched.since + look.term.timeout_seconds:\n",
            "    if look.count and sent_at >= look.count / 1000 + look.term.timeout_seconds:\n",
        ),
    ),
    _planted(
        "the wait begins when the look has returned",
        (
            _LEASE,
            "        return sent_at, self._here.watch(self.where(), look, self._here.now())\n",
            "        return self._here.now(), self._here.watch(self.where(), look, sent_at)\n",
        ),
    ),
    _planted(
        "a beat that changes begins the wait again",
        (
            _DECISIONS,
            "        if (look.number, look.count) == (self.look.number, self.look.count):\n",
            "        if look.number == self.look.number:\n",
        ),
    ),
    _planted(
        "the newest term is never removed",
        (
            _LEASE,
            "                remove_below(self._storage, number)\n",
            "                remove_below(self._storage, number + 1)\n",
        ),
    ),
    _planted(
        "a taker lists the terms after its put",
        (
            _LEASE,
            '            if newest_of(self._storage.list("")) == number:\n',
            "            if number:\n",
        ),
        near=15,
    ),
    _planted(
        "a holder that looks sees a newer term",
        (_LEASE, "        if newest != self._number:\n", "        if newest < self._number:\n"),
    ),
    _planted(
        "a term is taken by create-if-absent",
        (
            _LEASE,
            "            created = self._storage.put_if_absent(name_of(Term, number), encoded(term))\n",
            "            self._storage.replace(name_of(Term, number), encoded(term))\n            created = True\n",
        ),
    ),
)


def main() -> int:
    missed = 0
    for bug in PLANTED_LEASES:
        seen = try_planted(bug, first=0, seeds=1000)
        missed += not seen
        print(f"{bug.rule:55} {seen or 'NOT CAUGHT'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
