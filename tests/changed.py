"""`./dev test --changed`: the unit and simulation tests that import what was changed, for at most a minute.

Changed is what differs from `main`, or, on `main` itself, from the last commit and in it. The tests nearest to the
change run first: those that import a changed file, then those that import a file which does, and so on.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.house.measures import Module, imports_of, modules_below, outward
from tests.house.repository import ROOT

SECONDS = 60.0
FOLDERS = ("unit", "simulation")


def main() -> int:
    changed = changed_files()
    modules = [*modules_below(ROOT / "src"), *modules_below(ROOT, "tests")]
    chosen = in_order(modules, changed)
    outside = sorted({Path(name).parts[1] for name in changed if _is_of_other_tests(name)})
    if not chosen:
        print(f"no test of {' and '.join(FOLDERS)} imports the {len(changed)} changed files")
        return 0
    budget = _Budget(SECONDS)
    code = pytest.main(["-q", *map(str, chosen)], plugins=[budget])
    left_out = [str(file.relative_to(ROOT)) for file in chosen if file not in budget.begun]
    print(f"left out after {SECONDS:g} s: {', '.join(left_out) or 'nothing'}")
    print(f"not looked at: tests beside {' and '.join(FOLDERS)}; changed are tests of {', '.join(outside) or 'none'}")
    return 0 if code is pytest.ExitCode.INTERRUPTED and not budget.failed else int(code)


def changed_files() -> list[str]:
    """Paths below the root, of what is committed beside `main`, not committed, or not known to git yet."""
    on_main = _git("rev-parse", "HEAD") == _git("rev-parse", "main")
    before = "HEAD~1" if on_main else _git("merge-base", "HEAD", "main")[0]
    return sorted({*_git("diff", "--name-only", before), *_git("ls-files", "--others", "--exclude-standard")})


def in_order(modules: Collection[Module], changed: Collection[str]) -> list[Path]:
    """The test files that import a changed file, directly or not, the nearest first."""
    by_name = {each.name: each for each in modules}
    importers: dict[str, set[str]] = {name: set() for name in by_name}
    for name, imported in imports_of(modules).items():
        for other in imported:
            importers[other].add(name)
    begin = [each.name for each in modules if str(each.file.relative_to(ROOT)) in changed]
    reached = list(outward(begin, importers))
    return [by_name[name].file for name in reached if _is_chosen(by_name[name].file)]


def _is_chosen(file: Path) -> bool:
    parts = file.relative_to(ROOT).parts
    return parts[0] == "tests" and parts[1] in FOLDERS and file.name.startswith("test_")


def _is_of_other_tests(name: str) -> bool:
    parts = Path(name).parts
    return len(parts) > 2 and parts[0] == "tests" and parts[1] not in FOLDERS


class _Budget:
    """Ends the run behind the test that was running when the time was over."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.begun: set[Path] = set()
        self.failed = False

    @pytest.hookimpl
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.begun.add(item.path)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

    @pytest.hookimpl
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        if time.monotonic() > self._end:
            item.session.shouldstop = "the minute is over"


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
