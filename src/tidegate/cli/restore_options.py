"""The options of `run` and of `savepoint check` for a restore."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidegate.core.fingerprints import Allowed
from tidegate.savepoints.asked_restore import ALLOWED_VARIABLE, FRESH_VARIABLE
from tidegate.savepoints.fresh import Fresh
from tidegate.savepoints.restoring import Restore, Scope

_FROM = typer.Option(
    "-s",
    "--fromSavepoint",
    metavar="PATH",
    help="Restore this savepoint in a new generation of the job. It is restored once: later starts resume from the"
    " newest checkpoint of the job.",
)

FromSavepoint = Annotated[Path | None, _FROM]
"""The savepoint of a start that may have none."""

GivenSavepoint = Annotated[Path, _FROM]
"""The savepoint of a command that needs one."""

AllowNonRestored = Annotated[
    bool,
    typer.Option(
        "-n",
        "--allow-non-restored-state",
        "--allowNonRestoredState",
        help="Leave queries of the savepoint behind that the program does not have, and sources that they do not read.",
    ),
]

AllowNonRestoredOf = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-non-restored-state-of",
        metavar="QUERY",
        help="The same, for this query of the savepoint alone. May come again.",
    ),
]

OffsetsOnly = Annotated[
    bool,
    typer.Option("--offsets-only", help="Take the ends of the sources from the savepoint; the state is empty."),
]

StateOnly = Annotated[
    bool,
    typer.Option(
        "--state-only",
        help="Take the state from the savepoint; every source begins at the position that the program sets.",
    ),
]

Claim = Annotated[
    bool,
    typer.Option(
        "--claim",
        help="The savepoint belongs to this job from now on. In another folder the job keeps its id, so it resumes in"
        " the same targets; files are linked where the disk can. Without it the savepoint is only read, and a restore"
        " in another folder is another job.",
    ),
]

Renamed = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OLD=NEW", help="What the program calls a uid of the savepoint. May come again."),
]

Rewind = Annotated[
    bool,
    typer.Option(
        "--rewind",
        help="Go back behind rows that are visible already: the sinks get them once more. Else that is refused.",
    ),
]


AllowChangedOperator = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-changed-operator",
        metavar="UID",
        help="Keep the state of a stateful operator that computes something else now; name it by its uid, or as"
        " QUERY/NUMBER. Once for each command. May come again.",
    ),
]


BeginsFresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Begin anew, in a new and empty generation of the job: its sources begin where the program says, and rows"
        " that are visible come again. What is decided is committed first. Once for each command.",
    ),
]


def begin_fresh(savepoint: Path | None) -> dict[str, str]:
    """The environment that tells a program to open a new generation. The id makes it happen once: after a restart of
    the program the job resumes in the generation that it has opened."""
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


def restore_from(path: Path, told: RestoreOptions) -> Restore:
    """The restore that these options name. A link is resolved now: a restart of the program uses the same savepoint,
    even if the link changes."""
    return Restore(
        os.path.realpath(path),
        claim=told.claim,
        renamed=_pairs(told.renamed),
        allow_non_restored_state=told.allow,
        allow_non_restored_of=tuple(told.allow_of or ()),
        scope=_scope(told),
        rewind=secrets.token_hex(4) if told.rewind else "",
    )


def restore_if_any(path: Path | None, told: RestoreOptions) -> Restore | None:
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
