"""Named places at which a test may strike, and the notation of a strike.

    TIDEGATE_FAILPOINTS="prepared.before@3=crash,commit.after=hold:/some/file"   (only with TIDEGATE_TESTING=1)

`@3` strikes at epoch 3 (or the first later epoch that passes there); without it at the first pass. The registry is
closed: an unknown place or action is refused. With TIDEGATE_STRIKES=FOLDER the strikes in a folder are taken too, each
by the first process that passes (`tidegate.disk.strike_folder`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tidegate.core.errors import Code, TidegateError

DRIVER_POINTS: tuple[str, ...] = (
    "run",
    "start",
    "operators",
    "compute",
    "sync",
    "prepared",
    "overdue",
    "straight",
    "commits.seen",
    "decision",
    "decision.withdrawn",
    "commit",
    "redo.fenced",
    "redo.looked",
    "redo.written",
    "done",
    "finished",
    "gc.clean",
    "gc.record",
    "recover.listed",
    "recover.aborted",
    "recover.position",
    "recover.begun",
    "recover.dropped",
    "recover.discarded",
    "heal.checksum",
    "heal.entry",
    "heal.aside",
    "heal.put_back",
)
"""Places of the protocol: each effect's `point`, passed as `<point>.before` and `<point>.after`."""

TASK_POINTS: tuple[str, ...] = ("task.open", "task.write", "task.prepare", "task.prepared")
"""Places inside a task's writer."""

RESTORE_POINTS: tuple[str, ...] = (
    "restore.copied",
    "restore.rewritten",
    "restore.recorded",
    "restore.counted",
    "restore.noted",
    "restore.opened",
    "restore.switched",
    "restore.renamed",
)
"""Places of a restore, each after its step."""

POINTS: frozenset[str] = frozenset(
    [
        *(f"{point}.{when}" for point in DRIVER_POINTS for when in ("before", "after")),
        *TASK_POINTS,
        *RESTORE_POINTS,
    ]
)

AFTER_SOMETHING: frozenset[str] = frozenset(
    [f"{point}.after" for point in DRIVER_POINTS] + ["task.write", "task.prepared"]
)
"""Places after an action whose answer can be lost."""


class Action(Enum):
    """The action at a failpoint."""

    CRASH = "crash"  # the process kills itself with SIGKILL
    HOLD = "hold"  # a file is written to report that the place was reached; then the thread waits for ever
    PAUSE = "pause"  # the process stops itself with SIGSTOP, until it gets SIGCONT
    ERROR = "error"  # an OSError is raised in its place
    ACKLOST = "acklost"  # the action at the place is done, and its answer is lost: a TimeoutError is raised


@dataclass(frozen=True, slots=True)
class Strike:
    """One active failpoint: the place, the first epoch, the action, and a file for HOLD."""

    point: str
    epoch: int | None
    action: Action
    target: str

    def fits(self, point: str, epoch: int | None) -> bool:
        """True if it strikes at `point` in `epoch` (None if unknown)."""
        return self.point == point and (self.epoch is None or (epoch is not None and epoch >= self.epoch))


def parse_strikes(text: str) -> list[Strike]:
    """The strikes written in `text`, separated by commas."""
    return [_parse(word) for word in text.split(",") if word]


def _parse(word: str) -> Strike:
    place, _, doing = word.partition("=")
    point, _, epoch = place.partition("@")
    action, _, target = doing.partition(":")
    known = {each.value: each for each in Action}
    has_answer = point in AFTER_SOMETHING or action != Action.ACKLOST.value
    if point not in POINTS or action not in known or not has_answer or not (epoch == "" or epoch.isdigit()):
        raise TidegateError(
            Code.SETTING_VALUE,
            expected="place[@epoch]=crash|pause|error|hold:FILE with a registered place, or acklost after an effect",
            found=word,
            where="TIDEGATE_FAILPOINTS",
            next_step="see tidegate.core.failpoints.POINTS",
        )
    return Strike(point, int(epoch) if epoch else None, known[action], target)
