"""How long ten thousand seeds of the simulation take."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from bench.figures import Better, Figure

SEEDS = 10_000
_QUICK_SEEDS = 200
_GOAL_SECONDS = 90.0
_ROOT = Path(__file__).resolve().parents[1]


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """One run, whatever `rounds` says. A bad seed is an error: its speed does not matter."""
    del rounds
    seeds = _QUICK_SEEDS if quick else SEEDS
    begun = time.monotonic()
    done = subprocess.run(
        [str(_ROOT / "dev"), "simulate", "--seeds", str(seeds), "--json"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - begun
    if done.returncode != 0:
        raise RuntimeError(f"./dev simulate --seeds {seeds} --json failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    summary = json.loads(done.stdout)
    return [
        Figure(
            name="simulation",
            what=f"{seeds:,} seeds of the simulation, {len(summary['bad'])} bad",
            value=round(seconds, 1),
            unit="s",
            better=Better.LOWER,
            goal=_GOAL_SECONDS,
        )
    ]
