"""Checks in a process of its own whether a program's job could start. The job is not started."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate.core.guarantees import Guarantee
from tidegate.core.health import Finding, failed, failed_by, ok, warn
from tidegate.core.json_formats import parsed
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import all_heard
from tidegate.logs.last_word import is_verbose
from tidegate.machine.own_python import module_command
from tidegate.operate.guarantees import finding_of
from tidegate.savepoints.asked_restore import RESTORE_VARIABLE, SAYS, Said
from tidegate.savepoints.judgement import RestoreVerdict
from tidegate.savepoints.restoring import Restore

CHECK_ONLY = "TIDEGATE_CHECK_ONLY"
"""Set to 1 in the environment of a program: its jobs are checked and not started."""
CHECK_WORD = "TIDEGATE_CHECK_WORD"
"""Set beside it: the word that marks errors in the program's output (`core.telling`)."""
CHECKED = "tidegate: no problem prevents a start of job "
"""The program prints this on standard error, followed by the job's name, if the check passes; then it ends."""
NOTED = "tidegate: to fix in the program: "
"""The program prints one such line for each problem that does not prevent a start."""
GUARANTEED = "tidegate: guarantee: "
"""The program prints one such line for each sink: a `Guarantee` in JSON."""
OVERRIDES = "TIDEGATE_OVERRIDES"
_SECONDS = 600
_WORD = secrets.token_hex(8)


def check_app(
    app: Path, arguments: Sequence[str], overrides: Sequence[str], environment: Mapping[str, str]
) -> list[Finding]:
    """Run the program up to the start of its job; return all problems that prevent the start.

    `environment`: additional environment variables of the program.
    """
    done = _checked(app, arguments, overrides, environment, os.environ)
    if isinstance(done, Finding):
        return [done]
    lines = done.stderr.splitlines()
    said = [line for line in lines if line.startswith(CHECKED)]
    noted = [warn(str(app), *_noted(line)) for line in lines if line.startswith(NOTED)]
    told = [line.removeprefix(GUARANTEED) for line in lines if line.startswith(GUARANTEED)]
    given = [finding_of(parsed(each, Guarantee)) for each in told]
    return [*noted, *given, ok(str(app), said[-1].removeprefix("tidegate: "))] if said else _problems(app, done)


@dataclass(frozen=True, slots=True)
class RestoreCheck:
    """The preview of a restore, and all problems that prevent it or any start."""

    said: Said
    problems: tuple[Finding, ...]


def check_restore(
    app: Path,
    arguments: Sequence[str],
    overrides: Sequence[str],
    restore: Restore,
    environment: Mapping[str, str],
    *,
    inherited: Mapping[str, str] = os.environ,
) -> RestoreCheck:
    """Run the program up to the start of its job, with a restore from a savepoint. Nothing is written.

    `environment`: additional environment variables of the program. `inherited`: those that it has anyway.
    """
    restoring = {RESTORE_VARIABLE: msgspec.json.encode(restore).decode()}
    done = _checked(app, arguments, overrides, {**environment, **restoring}, inherited)
    if isinstance(done, Finding):
        return RestoreCheck(_IMPOSSIBLE, (done,))
    lines = done.stderr.splitlines()
    told = [line.removeprefix(SAYS) for line in lines if line.startswith(SAYS)]
    said = parsed(told[-1], Said) if told else _IMPOSSIBLE
    stands = any(line.startswith(CHECKED) for line in lines)
    return RestoreCheck(said, () if stands else tuple(_problems(app, done)))


_IMPOSSIBLE = Said(verdict=RestoreVerdict.IMPOSSIBLE.value)


def _checked(
    app: Path,
    arguments: Sequence[str],
    overrides: Sequence[str],
    more: Mapping[str, str],
    inherited: Mapping[str, str],
) -> subprocess.CompletedProcess[str] | Finding:
    environment = {**inherited, CHECK_ONLY: "1", CHECK_WORD: _WORD, **more}
    if overrides:
        environment[OVERRIDES] = json.dumps(list(overrides))
    command = module_command("tidegate.spark.checked_program", str(app), *arguments)
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return failed(
            str(app), f"no job was started within {_SECONDS} s", f"see with `py-spy dump` what {app} waits for"
        )
    if is_verbose(environment):
        print(SECRETS.hide("\n".join(_own_words(done.stderr))), file=sys.stderr, flush=True)
    return done


def _own_words(said: str) -> Iterator[str]:
    """The output of the program and Spark, without the lines that this command reads."""
    read = (CHECKED, NOTED, GUARANTEED, SAYS)
    return (line for line in said.splitlines() if not line.startswith(read) and _WORD not in line)


def _problems(app: Path, done: subprocess.CompletedProcess[str]) -> list[Finding]:
    found = [finding for said in all_heard(done.stderr, _WORD) for finding in failed_by(str(app), said.error)]
    return list(dict.fromkeys(found)) or [_nothing_started(app, done)]


def _noted(line: str) -> tuple[str, str]:
    """The finding and the next step."""
    found, _, next_step = line.removeprefix(NOTED).rpartition("; ")
    return found, next_step


def _nothing_started(app: Path, done: subprocess.CompletedProcess[str]) -> Finding:
    if done.returncode == 0:
        return failed(str(app), "it ended without starting a job", "let the program call job.run() or job.start()")
    last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it said nothing")
    return failed(str(app), f"it ended with {done.returncode}: {last.strip()[:500]}", f"run it by itself: python {app}")
