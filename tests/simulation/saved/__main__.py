"""`python -m tests.simulation.saved`: run the small world of savepoints, print how many runs were bad, and which."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.saved.campaign import Family, among, cases, run, run_case
from tests.simulation.saved.planted import PLANTED, Planted
from tests.simulation.saved.stories import Story, parse_case

SHOWN_KEYS = 10
_MOST_RUNS = 1000


def main() -> int:
    """Exit code 1 when a run was bad, or a planted bug was not caught."""
    arguments = _parser().parse_args()
    if arguments.planted:
        chosen = PLANTED[arguments.first :: arguments.stride]
        missed = [planted for planted in chosen if not _is_caught(planted)]
        return 1 if missed else 0
    if arguments.case:
        key, complaint = run_case(parse_case(arguments.case))
        print(f"{key} {complaint or 'is well'}")
        return 1 if complaint else 0
    return _run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.saved", description=__doc__)
    parser.add_argument("--case", metavar="KEY", help="run one case and say what is wrong with it")
    parser.add_argument("--family", choices=[each.value for each in Family], help="only this kind of enumeration")
    parser.add_argument("--story", choices=[each.value for each in Story], help="only this story")
    parser.add_argument("--stride", type=int, default=1, help="only one case, or one broken rule, in STRIDE")
    parser.add_argument("--first", type=int, default=0, help="the first seed, or the first broken rule")
    parser.add_argument("--seeds", type=int, default=1000, help="so many seeds")
    parser.add_argument("--planted", action="store_true", help="break each rule once: it must be caught")
    parser.add_argument("--processes", type=int, default=2)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    stories = [each for each in Story if arguments.story in (None, each.value)]
    bad = 0
    for family in Family:
        if arguments.family not in (None, family.value):
            continue
        begun = time.monotonic()
        chosen = list(cases(family, first=arguments.first, seeds=arguments.seeds, stories=stories))[:: arguments.stride]
        result = run(chosen, processes=arguments.processes)
        bad += len(result.bad)
        print(
            f"{family.value:8} {result.runs} runs, {len(result.bad)} bad ({time.monotonic() - begun:.0f} s)", flush=True
        )
        for key, complaint in result.bad[:SHOWN_KEYS]:
            print(f"    {key} {complaint.splitlines()[0]}")
    return 1 if bad else 0


def _is_caught(planted: Planted) -> bool:
    """Whether one of the cases that it is to be seen in is bad."""
    for runs, case in enumerate(among(planted.story, planted.hit), start=1):
        with planted.plant():
            key, complaint = run_case(case)
        if complaint:
            print(f"caught after {runs:3} runs: {planted.rule}: {key} {complaint.splitlines()[0][:100]}", flush=True)
            return True
        if runs == _MOST_RUNS:
            break
    print(f"NOT CAUGHT: {planted.rule}", flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
