"""A failover of a database to a standby that lacks the last epochs: the job is refused, and goes back to where the
standby is. The same on each database.
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from tests.support.database_kills import PROGRAM
from tests.support.driver import Driver
from tests.support.variables import variables

ROWS = 30
"""Of a file. An epoch reads one file."""
SECONDS = 30.0
"""That a standby may need to follow."""


class Pair(ABC):
    """A primary and its standby. `kind`: of `database_program`."""

    kind: ClassVar[str]
    password: ClassVar[str]

    @abstractmethod
    def of_primary(self) -> tuple[str, str]:
        """The address and the name of the database or schema, for the program."""

    @abstractmethod
    def of_standby(self) -> tuple[str, str]: ...

    @abstractmethod
    def await_copy(self) -> None:
        """Until the standby has everything that the primary has now."""

    @abstractmethod
    def part(self) -> None:
        """The standby gets nothing more."""

    @abstractmethod
    def fail_over(self) -> None:
        """The primary dies, and the standby takes writes."""

    @abstractmethod
    def numbers(self) -> list[int]:
        """What stands in the table `log` of the standby."""


def refused_until_it_goes_back(folder: Path, pair: Pair, protocol: str) -> None:
    (folder / "in").mkdir()
    with variables({"THE_PASSWORD": pair.password, "TIDEGATE_CHECKPOINTING_RETAINED": "10"}):
        put(folder, 0, 1)
        assert run(folder, pair.kind, *pair.of_primary(), protocol)[0] == 0
        pair.await_copy()
        pair.part()
        put(folder, 2, 3)
        assert run(folder, pair.kind, *pair.of_primary(), protocol)[0] == 0
        pair.fail_over()
        code, told = run(folder, pair.kind, *pair.of_standby(), protocol)
        assert code != 0
        assert "TG-SINK-BEHIND" in told
        assert "expected: epoch 3" in told
        assert "found:    epoch 1" in told
        assert missing_rows(told) == [1, 3], "each epoch has read one file"
        checkpoint = folder / "checkpoints" / "copy" / "checkpoints" / "2"
        assert f"go back to retained checkpoint 2: tidegate run -s {checkpoint} --rewind APP" in told.replace("\n", "")
        assert run(folder, pair.kind, *pair.of_standby(), protocol, str(checkpoint))[0] == 0
    assert pair.numbers() == list(range(4 * ROWS))


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of the job, and what this run has told. `arguments`: of the program, but for the folder."""
    kind, *others = arguments
    log = folder / f"log-{time.monotonic_ns()}"
    with Driver(PROGRAM, kind, str(folder), *others, log=log) as driver:
        code = driver.wait()
    return code, log.read_text(errors="replace")


def missing_rows(told: str) -> list[int]:
    """The positions of the source between which the missing rows are."""
    found = re.search(
        r"behind source positions \['(.*?)'\], up to source positions \['(.*?)'\]", " ".join(told.split())
    )
    assert found is not None, told
    return [json.loads(each)["logOffset"] for each in found.groups()]


def put(folder: Path, *files: int) -> None:
    for file in files:
        lines = [json.dumps({"number": number}) for number in range(file * ROWS, (file + 1) * ROWS)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")
