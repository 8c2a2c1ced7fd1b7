"""`python -m tests.world`: run the small world, print how many runs were bad, and their keys."""

from __future__ import annotations

import argparse
import sys
import time

from tests.world.campaign import Part, Result, parts, run_part
from tests.world.cases import parse_case
from tests.world.configurations import CONFIGURATIONS
from tests.world.enumeration import Family
from tests.world.hostile import hostile_cases, run_hostile
from tests.world.world import run_case

SHOWN_KEYS = 10
HOSTILE = "hostile"


def main() -> int:
    """Exit code 1 when a run was bad."""
    arguments = _parser().parse_args()
    if arguments.case:
        return _show(arguments.case)
    return _run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--case", metavar="KEY", help="run one case and print what happens in it, step by step")
    parser.add_argument("--all", action="store_true", help="every case of every configuration (hours)")
    parser.add_argument(
        "--family", choices=[HOSTILE, *(each.value for each in Family)], help="only this kind of enumeration"
    )
    parser.add_argument("--configuration", choices=list(CONFIGURATIONS), help="only this configuration")
    parser.add_argument("--stride", type=int, help="only about one case in STRIDE")
    parser.add_argument("--stop", action="store_true", help="stop at the first bad run")
    parser.add_argument("--processes", type=int, default=2)
    return parser


def _show(key: str) -> int:
    trace: list[str] = []
    complaints = run_case(parse_case(key), trace)
    print("\n".join([*trace, *(f"!!!! {each}" for each in complaints)]))
    return 1 if complaints else 0


def _run(arguments: argparse.Namespace) -> int:
    begun = time.monotonic()
    runs, bad = _run_hostile() if arguments.family in (None, HOSTILE) and not arguments.configuration else (0, 0)
    for part in parts(everything=arguments.all):
        if arguments.family not in (None, part.family.value):
            continue
        if arguments.configuration not in (None, part.configuration):
            continue
        chosen = part if arguments.stride is None else Part(part.family, part.configuration, arguments.stride)
        result = run_part(chosen, processes=arguments.processes, stop=arguments.stop)
        runs, bad = runs + result.runs, bad + len(result.bad)
        _print_part(chosen, result)
        if bad and arguments.stop:
            break
    print(f"{runs} runs, {bad} bad, {time.monotonic() - begun:.0f} s")
    return 1 if bad else 0


def _run_hostile() -> tuple[int, int]:
    cases = hostile_cases()
    bad = {case.name: complaints for case in cases if (complaints := run_hostile(case))}
    print(f"{HOSTILE:7} {'':22} {len(cases):7} runs {len(bad):5} bad")
    for name, complaints in bad.items():
        print(f"    {name}\n        {complaints[0].splitlines()[0]}")
    return len(cases), len(bad)


def _print_part(part: Part, result: Result) -> None:
    stride = "" if part.stride == 1 else f" (1 in {part.stride})"
    print(f"{part.family.value:7} {part.configuration:22} {result.runs:7} runs {len(result.bad):5} bad{stride}")
    for key, complaint in result.bad[:SHOWN_KEYS]:
        print(f"    {key}\n        {complaint}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
