"""The options of `run` and of `savepoint check` for a restore."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
import typer

from tidegate.core.fingerprints import Allowed
from tidegate.savepoints.asked_restore import ALLOWED_VARIABLE, FRESH_VARIABLE, resolved_folder
from tidegate.savepoints.fresh import Fresh
from tidegate.savepoints.restoring import Restore, Scope

_FROM = typer.Option(
    "-s",
    "--fromSavepoint",
    metavar="PATH",
    help="Restore this savepoint, or this retained checkpoint (DIR/JOB/checkpoints/N, DIR/JOBID/chk-N), a folder or a"
    " URI, in a new generation of the job. It is restored once: later starts resume from the newest checkpoint of the"
    " job.",
)

FromSavepoint = Annotated[str | None, _FROM]
"""The savepoint of a start that may have none."""

GivenSavepoint = Annotated[str, _FROM]
"""The savepoint of a command that needs one."""

AllowNonRestored = Annotated[
    bool,
    typer.Option(
        "-n",
        "--allow-non-restored-state",
        "--allowNonRestoredState",
        help="Drop the queries and sources of the savepoint that the program does not have.",
    ),
]

AllowNonRestoredOf = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-non-restored-state-of",
        metavar="QUERY",
        help="The same for one query of the savepoint. Repeatable.",
    ),
]

OffsetsOnly = Annotated[
    bool,
    typer.Option("--offsets-only", help="Restore only the source positions of the savepoint; the state begins empty."),
]

StateOnly = Annotated[
    bool,
    typer.Option(
        "--state-only",
        help="Restore only the state of the savepoint; every source begins at the position that the program sets.",
    ),
]

Claim = Annotated[
    bool,
    typer.Option(
        "--claim",
        help="Let the job own the savepoint from now on. A restore in another folder then keeps the job's id, so it can"
        " write into the same targets; files are linked if the disk supports it. Without this option the savepoint is"
        " only read, and a restore in another folder makes a new job.",
    ),
]

Renamed = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="OLD=NEW", help="A uid of the savepoint, and the uid that the program uses now. Repeatable."
    ),
]

Rewind = Annotated[
    bool,
    typer.Option(
        "--rewind",
        help="Allow a restore that writes rows again that are already visible. Without this option it is refused.",
    ),
]


AllowChangedOperator = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-changed-operator",
        metavar="UID",
        help="Keep the state of a stateful operator that computes something else now. UID: its uid, or QUERY/NUMBER."
        " Applies to this command only, and to no later restart. Repeatable.",
    ),
]


BeginsFresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Start the job with empty state in a new generation: its sources begin at the positions that the program"
        " sets, and rows may be written again. Decided epochs are committed first. Applies to this command only, and to"
        " no later restart.",
    ),
]


def begin_fresh(savepoint: str | None) -> dict[str, str]:
    """The environment variable that tells a program to open a new generation.

    Its value is a new id, so that this happens once: after a restart, the program finds that the generation of this id
    exists, and resumes in it.
    """
    if savepoint is not None:
        raise typer.BadParameter("not with a savepoint: leave out -s", param_hint="--fresh")
    return {FRESH_VARIABLE: msgspec.json.encode(Fresh(secrets.token_hex(4))).decode()}


def allowed_changes(given: list[str] | None) -> dict[str, str]:
    """The environment that passes these operators to a program. The id makes it apply once: it has no effect after a
    restart of the program."""
    if not given:
        return {}
    allowed = Allowed(tuple(given), once=secrets.token_hex(4))
    return {ALLOWED_VARIABLE: msgspec.json.encode(allowed).decode()}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """The options beside the savepoint itself, as they were given."""

    claim: bool
    allow: bool
    allow_of: list[str] | None
    renamed: list[str] | None
    offsets_only: bool
    state_only: bool
    rewind: bool

    def given(self) -> Mapping[str, object]:
        """By name."""
        return {
            "--claim": self.claim,
            "--allow-non-restored-state": self.allow,
            "--allow-non-restored-state-of": self.allow_of,
            "--map": self.renamed,
            "--offsets-only": self.offsets_only,
            "--state-only": self.state_only,
            "--rewind": self.rewind,
        }


def restore_from(path: str, told: RestoreOptions) -> Restore:
    """The restore that these options name. A link is resolved now: a restart of the program uses the same savepoint,
    even if the link changes."""
    return Restore(
        resolved_folder(path),
        claim=told.claim,
        renamed=_pairs(told.renamed),
        allow_non_restored_state=told.allow,
        allow_non_restored_of=tuple(told.allow_of or ()),
        scope=_scope(told),
        rewind=secrets.token_hex(4) if told.rewind else "",
    )


def restore_if_any(path: str | None, told: RestoreOptions) -> Restore | None:
    """The same for a command with an optional savepoint. Restore options without a savepoint are wrong usage."""
    if path is not None:
        return restore_from(path, told)
    for name, given in told.given().items():
        if given:
            raise typer.BadParameter("only with a savepoint: -s PATH", param_hint=name)
    return None


def _scope(told: RestoreOptions) -> Scope:
    match told.offsets_only, told.state_only:
        case True, True:
            raise typer.BadParameter("not with --state-only: leave both out", param_hint="--offsets-only")
        case True, _:
            return Scope.OFFSETS_ONLY
        case _, True:
            return Scope.STATE_ONLY
        case _:
            return Scope.WHOLE


def _pairs(renamed: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in renamed or []:
        before, equals, after = each.partition("=")
        if not (before and equals and after) or "=" in after or before in pairs:
            raise typer.BadParameter("expected OLD=NEW, each OLD once", param_hint="--map")
        pairs[before] = after
    return pairs
