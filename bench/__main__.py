"""`./dev bench SUITE`: all of a suite, each in a process of its own, one after the other. Without a suite: the newest
kept results of all of them in one table.

The results of a whole run are kept under `bench/results`; those of `--quick`, `--only` and `--epochs` are only printed.
Measure on a machine that does nothing else: its load average stands beside each figure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from bench.archive import make_class_archive
from bench.child import COLD, MEASURES, NEEDS, OF_ANY_LENGTH, ON_REQUEST, SUITES
from bench.figures import Figure, Results
from bench.machine import this_machine
from bench.report import RESULTS, table_of_all, text_table

_ROUNDS: Mapping[str, int] = {
    "core": 3,
    "kafka": 5,
    "flink": 3,
    "other": 1,
    "long": 1,
    "start": 5,
    "job": 5,
    "savepoint": 5,
    "scale": 1,
    "storage": 3,
    "barriers": 5,
    "sinks": 5,
    "page": 5,
}
_QUICK_ROUNDS = 1
_LEAST_EPOCHS = 20


def main() -> int:
    """Exit code 1 when a goal was missed by what was measured now."""
    parser = _parser()
    asked = parser.parse_args()
    if asked.what is None:
        print(table_of_all(SUITES))
        return 0
    rounds = asked.rounds or (_QUICK_ROUNDS if asked.quick else _ROUNDS[asked.what])
    names = possible(asked.only or of_suite(asked.what))
    if asked.epochs is not None and OF_ANY_LENGTH.isdisjoint(names):
        parser.error(f"--epochs is for {', '.join(sorted(OF_ANY_LENGTH))}")
    if not COLD.isdisjoint(names):
        make_class_archive(os.environ)
    figures = [figure for name in names for figure in _measured(name, rounds, quick=asked.quick, epochs=asked.epochs)]
    results = Results(
        measured=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        quick=asked.quick,
        rounds=rounds,
        machine=this_machine(Path(tempfile.gettempdir())),
        figures=tuple(figures),
    )
    if not asked.quick and not asked.only and asked.epochs is None:
        _keep(asked.what, results)
    print(_as_json(results).decode() if asked.json else text_table(results))
    return 1 if any(figure.is_met is False for figure in figures) else 0


def of_suite(suite: str) -> list[str]:
    """What it measures without being asked for more."""
    return [name for name in SUITES[suite] if name not in ON_REQUEST]


def possible(names: list[str]) -> list[str]:
    """Those whose other system is installed, or that need none; what is left out is told."""
    found: list[str] = []
    for name in names:
        needed = NEEDS.get(name)
        if needed is None or needed.installed_version() is not None:
            found.append(name)
        else:
            told = f"{name} is left out: no {needed.title}. To have it: {needed.how_to_install()}"
            print(f"bench: {told}", file=sys.stderr)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("what", nargs="?", choices=list(SUITES), help="without it: the table of all kept results")
    usual = ", ".join(f"{rounds} for {suite}" for suite, rounds in _ROUNDS.items())
    parser.add_argument("--rounds", type=_positive, help=f"rounds of each comparison ({usual}; {_QUICK_ROUNDS} quick)")
    parser.add_argument("--quick", action="store_true", help="fewer epochs, rows and seeds: to see that it works")
    length = "epochs of the long run of a job: it is looked at after a twentieth, a fifth and all (10000)"
    parser.add_argument("--epochs", type=_epochs, help=length)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--only", action="append", choices=list(MEASURES), help="only this benchmark; may be repeated")
    return parser


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _epochs(text: str) -> int:
    if (number := int(text)) < _LEAST_EPOCHS:
        raise argparse.ArgumentTypeError(f"at least {_LEAST_EPOCHS}")
    return number


def _measured(name: str, rounds: int, *, quick: bool, epochs: int | None) -> list[Figure]:
    """The figures of one benchmark, from a process of its own: a JVM that served another one is not the same."""
    print(f"bench: {name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "bench.child", name, "--rounds", str(rounds), "--out", str(out)]
        if quick:
            command.append("--quick")
        if epochs is not None:
            command.extend(["--epochs", str(epochs)])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench: {name} failed\n{done.stderr[-4000:]}")
        return msgspec.json.decode(out.read_bytes(), type=list[Figure])


def _keep(suite: str, results: Results) -> None:
    RESULTS.mkdir(exist_ok=True)
    stamp = results.measured.replace(":", "").replace("+0000", "Z")
    (RESULTS / f"{suite}-{stamp}.json").write_bytes(_as_json(results))


def _as_json(results: Results) -> bytes:
    return msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"


if __name__ == "__main__":
    sys.exit(main())
