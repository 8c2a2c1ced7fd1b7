"""The records in the ledger of one query."""

from __future__ import annotations

from tidegate.core.records.transactions import Committable
from tidegate.core.records.value import Value

NOTHING_FINISHED = -1
"""The value of *finished* before the first epoch of a generation that starts at epoch 0."""


class OperatorFingerprint(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The definition of a stateful operator in the program.

    `number`: its number among the operators of the query, counted from the sink towards the sources. `uid`: its uid in
    the program; empty if it has none. `compared` and `told`: a text for each `Part`; if a text in `compared` differs,
    the operator has changed. `origins`: the same texts with each column named by its origin instead; if they are equal,
    the part has not changed, although its columns were renamed.
    """

    number: int
    uid: str
    compared: dict[str, str]
    origins: dict[str, str] = {}
    told: dict[str, str] = {}


class Start(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*start*: the begin of a generation of a query. Epochs below `first_epoch` count as finished. `fingerprints`: of
    its stateful operators; None in a record of an older release.
    """

    job_id: str
    generation: int
    first_epoch: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    positions: dict[str, str] = {}
    fingerprints: tuple[OperatorFingerprint, ...] | None = None


class OperatorsAccepted(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*operators/N*: the fingerprints of the stateful operators since the start that wrote it. The newest one counts,
    before those of *start*. `accepted`: the differences, in words, that the start was allowed to accept under the id
    `once`. It is empty if the start found no fingerprints, or only differences that need no permission.
    """

    fingerprints: tuple[OperatorFingerprint, ...]
    at: str
    accepted: tuple[str, ...] = ()
    once: str = ""


class Run(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*runs/R*: one start of the query, written before anything else."""

    run: int
    token: str
    host: str
    process: int
    since: str


class StateFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of state as it was when an epoch was prepared. `name`: relative to Spark's checkpoint."""

    name: str
    size_bytes: int
    sha256: str


class Prepared(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*prepared/N.R*: every sink of epoch N pre-committed by run R; also of an epoch without rows.

    `state_rows`: the rows of state behind the epoch, by the number of the stateful operator, where Spark has counted
    them; `operator_uids`: the uids that the program has given operators, by their number. A record of an older release
    has none. `state_files`: the files of state, where their names do not say which run wrote them and another driver
    may be alive (`checkpoints.state_proof`).
    """

    epoch: int
    run: int
    committables: tuple[Committable, ...]
    start_positions: tuple[str | None, ...] | None
    offsets: bytes
    state_ids: str | None
    state_rows: dict[str, int] = {}
    operator_uids: dict[str, str] = {}
    state_files: tuple[StateFile, ...] = ()


class Decided(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*decided/N*: the one prepared record that counts, the bytes of both of Spark's log entries, and that record's
    rows of state and uids of operators.
    """

    epoch: int
    run: int
    prepared_digest: str
    offsets: bytes
    commits: bytes
    state_rows: dict[str, int] = {}
    operator_uids: dict[str, str] = {}


class Sealed(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*decided/N* in a generation that has ended: no run of it decides on epoch N or a later one, whatever Spark's log
    shows. Every epoch below is done. It is never removed.
    """

    epoch: int


class Done(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*done/N*: every sink of the epoch has committed."""

    epoch: int
    run: int
    prepared_digest: str


class Overdue(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*overdue/N.R*: epoch N was cut off in run R, because it was not prepared within `seconds`."""

    epoch: int
    run: int
    seconds: float


class SinkProgress(Value, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The newest epoch with rows of a sink, and the digest that the sink stored as evidence.

    `generation`: the generation of that epoch, if it is an older one: a restored generation begins with the evidence of
    its savepoint. 0: the generation of this record.
    """

    epoch: int
    digest: str
    generation: int = 0


class FinishedThrough(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*finished_through*: the largest epoch up to which every epoch is done."""

    epoch: int
    sinks: dict[str, SinkProgress] = {}
