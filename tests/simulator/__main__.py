"""`python -m tests.simulator`: run seeds, print what fired and which seeds are bad, and why."""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.simulator.faults import Injection, parse_injection
from tests.simulator.figures import ENOUGH_SEEDS, never_fired, table
from tests.simulator.planted import PLANTED, Caught, chosen, try_bug
from tests.simulator.run import Campaign, run_seed, run_seeds
from tests.simulator.shrink import shrink_seed

SHOWN_SEEDS = 10
COMMAND = "./dev simulate"


def main() -> int:
    """Exit code 1 when a seed is bad, a planted bug is not caught, or something never fired in a large campaign."""
    arguments = _parser().parse_args()
    if arguments.planted is not None:
        return _plant(arguments)
    if arguments.seed is not None:
        return _show(arguments)
    return _campaign(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run one and show its whole trace")
    parser.add_argument("--only", metavar="FAULTS", help="with --seed: these faults and no others, joined by commas")
    parser.add_argument("--shrink", action="store_true", help="with --seed: find the faults that it needs to fail")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--planted", nargs="?", const="", metavar="NAME", help="break the rules one by one instead")
    parser.add_argument("--stop", action="store_true", help="stop soon after the first bad seed")
    parser.add_argument("--json", action="store_true", help="the result as one JSON object")
    return parser


# --- one seed ----------------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace) -> int:
    only: list[Injection] | None = None
    if arguments.shrink:
        only = shrink_seed(arguments.seed)
    elif arguments.only is not None:
        only = [parse_injection(word) for word in arguments.only.split(",") if word]
    trace: list[str] = []
    outcome = run_seed(arguments.seed, injections=only, trace=trace)
    if arguments.json:
        result = {"seed": outcome.seed, "complaints": outcome.complaints, "digest": outcome.digest}
        print(json.dumps({**result, "steps": outcome.steps, "faults": list(map(str, outcome.injections))}))
        return 1 if outcome.complaints else 0
    print("\n".join(trace))
    print(f"{outcome.steps} steps, {len(outcome.injections)} faults, trace {outcome.digest}")
    for complaint in outcome.complaints:
        print(f"BAD {complaint}")
    if only is not None:
        print(f"{COMMAND} --seed {arguments.seed} --only '{','.join(map(str, only))}'")
    return 1 if outcome.complaints else 0


# --- many --------------------------------------------------------------------------------------------------


def _campaign(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    campaign = Campaign()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    for part in run_seeds(seeds, processes=arguments.processes, batch=10 if arguments.stop else 50):
        campaign.add(part)
        _progress(campaign, len(seeds), begun)
        if campaign.bad and arguments.stop:
            break
    seconds = time.monotonic() - begun
    print(file=sys.stderr)
    silent = never_fired(campaign.figures) if arguments.seeds >= ENOUGH_SEEDS else []
    if arguments.json:
        _print_json(campaign, seconds)
    else:
        _print_table(campaign, seconds)
    for line in silent:
        print(f"never fired: {line.kind} {line.name}", file=sys.stderr)
    return 1 if campaign.bad or silent else 0


def _progress(campaign: Campaign, seeds: int, begun: float) -> None:
    rate = campaign.seeds / max(time.monotonic() - begun, 0.001)
    text = f"\r{campaign.seeds} of {seeds} seeds, {len(campaign.bad)} bad, {rate:.0f}/s "
    print(text, end="", file=sys.stderr, flush=True)


def _print_table(campaign: Campaign, seconds: float) -> None:
    for line in table(campaign.figures):
        print(f"{line.kind:8} {line.name:64} {line.times:9}")
    for seed, complaint in list(campaign.bad.items())[:SHOWN_SEEDS]:
        print(f"BAD seed {seed}: {complaint}\n    {COMMAND} --seed {seed}")
    print(f"{campaign.seeds} seeds, {len(campaign.bad)} bad, {campaign.steps} steps, {seconds:.0f} s")


def _print_json(campaign: Campaign, seconds: float) -> None:
    fired = {f"{line.kind} {line.name}": line.times for line in table(campaign.figures)}
    bad = {str(seed): complaint for seed, complaint in campaign.bad.items()}
    counts = {"seeds": campaign.seeds, "steps": campaign.steps, "seconds": round(seconds, 1)}
    print(json.dumps({**counts, "bad": bad, "fired": fired, "digests": campaign.digests}))


# --- planted bugs ------------------------------------------------------------------------------------------


def _plant(arguments: argparse.Namespace) -> int:
    results: list[Caught] = []
    for bug in chosen(PLANTED, arguments.planted):
        print(f"{bug.name} ...", file=sys.stderr)
        results.append(try_bug(bug, processes=arguments.processes))
        if not arguments.json:
            print(results[-1].line(), flush=True)
    missed = [result.bug.name for result in results if not result.bad]
    if arguments.json:
        print(json.dumps([result.as_json() for result in results]))
    else:
        print(f"{len(results)} planted bugs, {len(missed)} not caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
