"""Errors of tidegate: a closed catalogue of stable codes, grouped by the reader's next action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from tidegate.core.next_steps import NEXT_STEPS, Remedy

Detail: TypeAlias = "str | int"


class Code(Enum):
    """Every stable error code: (code, remedy, meaning). Codes are never renamed or used again."""

    def __init__(self, label: str, remedy: Remedy, meaning: str) -> None:
        self.label = label
        self.remedy = remedy
        self.meaning = meaning

    @property
    def next_step(self) -> str:
        """The next step, if the error itself has none."""
        return NEXT_STEPS.get(self.label, self.remedy.value)

    # The program and its settings.
    START_REFUSED = ("TG-START-REFUSED", Remedy.PROGRAM, "several errors prevent the start; each is listed")
    UID_INVALID = ("TG-UID-INVALID", Remedy.PROGRAM, "a uid is missing or has characters that do not fit a path")
    UID_DUPLICATE = ("TG-UID-DUPLICATE", Remedy.PROGRAM, "two sources, queries or sinks of a job share a uid")
    SETTING_UNKNOWN = ("TG-SETTING-UNKNOWN", Remedy.PROGRAM, "a setting that does not exist")
    SETTING_VALUE = ("TG-SETTING-VALUE", Remedy.PROGRAM, "a setting has a value that does not fit")
    SETTINGS_CLASH = ("TG-SETTINGS-CLASH", Remedy.PROGRAM, "settings that do not go together")
    SETTINGS_FILE = ("TG-SETTINGS-FILE", Remedy.PROGRAM, "a file of settings cannot be read or written")
    OPTION_UNKNOWN = ("TG-OPTION-UNKNOWN", Remedy.PROGRAM, "an option that a source, sink or query does not have")
    JOB_EMPTY = ("TG-JOB-EMPTY", Remedy.PROGRAM, "the job has no query, or a query has no sink")
    QUERY_NOT_STREAMING = ("TG-QUERY-NOT-STREAMING", Remedy.PROGRAM, "the DataFrame of a query is not streaming")
    SOURCE_UNKNOWN = ("TG-SOURCE-UNKNOWN", Remedy.PROGRAM, "a query reads a stream that is no source of the job")
    CHANNEL_UNWRITTEN = ("TG-CHANNEL-UNWRITTEN", Remedy.PROGRAM, "a channel is read that no query has written so far")
    CHANNEL_TAKEN = ("TG-CHANNEL-TAKEN", Remedy.PROGRAM, "the channel, or its topic, has another writer already")
    SOURCE_NOT_REPLAYABLE = (
        "TG-SOURCE-NOT-REPLAYABLE",
        Remedy.PROGRAM,
        "exactly-once needs a source that gives the same rows again",
    )
    SOURCE_NOT_NEWEST = (
        "TG-SOURCE-NOT-NEWEST",
        Remedy.PROGRAM,
        "at-most-once needs a source that can start at its newest input",
    )
    SOURCE_OPTION = ("TG-SOURCE-OPTION", Remedy.PROGRAM, "an option of a source has a value that does not fit")
    SOURCE_LINE = ("TG-SOURCE-LINE", Remedy.PROGRAM, "a source sends a line that is longer than it may be")
    SOURCE_LOCAL_ONLY = ("TG-SOURCE-LOCAL-ONLY", Remedy.PROGRAM, "a source on a local disk under a cluster master")
    STORAGE_LOCAL_ONLY = ("TG-STORAGE-LOCAL-ONLY", Remedy.PROGRAM, "what is asked for needs a folder on a local disk")
    STORAGE_UNSHARED = (
        "TG-STORAGE-UNSHARED",
        Remedy.PROGRAM,
        "checkpoints, or a savepoint to read, on a disk of the driver's machine under a cluster master: the executors"
        " would need them, too",
    )
    EXECUTOR_PYTHON = (
        "TG-EXECUTOR-PYTHON",
        Remedy.PROGRAM,
        "the Python of an executor lacks a package that tasks import, or has other versions than the driver's",
    )
    SOURCE_REFUSED = ("TG-SOURCE-REFUSED", Remedy.PROGRAM, "Spark cannot read a source as it is described")
    QUERY_REFUSED = ("TG-QUERY-REFUSED", Remedy.PROGRAM, "Spark cannot run a query as it is written")
    STATE_TABLE = (
        "TG-STATE-TABLE",
        Remedy.PROGRAM,
        "the requested state is not in the savepoint, or cannot be read as a table",
    )
    SOURCES_CHANGED = (
        "TG-SOURCES-CHANGED",
        Remedy.PROGRAM,
        "other sources, sinks or another order than the checkpoint's: Spark's offsets go by position",
    )
    LEVEL_REFUSED = (
        "TG-LEVEL-REFUSED",
        Remedy.PROGRAM,
        "a delivery level that a sink does not support, or that cannot be combined with the job's other levels",
    )
    OUTPUT_MODE = ("TG-OUTPUT-MODE", Remedy.PROGRAM, "an output mode that a sink cannot take")
    KEY_COLUMN = ("TG-KEY-COLUMN", Remedy.PROGRAM, "a key column that the rows or the table do not have")
    SCHEMA_MISMATCH = ("TG-SCHEMA-MISMATCH", Remedy.PROGRAM, "the rows do not fit the table or the format")
    DEAD_LETTERS_LIMIT = (
        "TG-DEAD-LETTERS-LIMIT",
        Remedy.PROGRAM,
        "an epoch has more dead letters than max_dead allows; it is undecided",
    )
    ROW_CONFLICT = (
        "TG-ROW-CONFLICT",
        Remedy.PROGRAM,
        "a row that its table refuses at the commit; its epoch is decided and waits",
    )
    ROW_UNPARSED = (
        "TG-ROW-UNPARSED",
        Remedy.PROGRAM,
        "a text that does not parse by its schema: its epoch fails, or it is among the dead letters",
    )
    RECORD_REFUSED = (
        "TG-RECORD-REFUSED",
        Remedy.PROGRAM,
        "a sink cannot take a row; its epoch is undecided, and every start would come to the same row again",
    )
    SINK_LOCAL_ONLY = ("TG-SINK-LOCAL-ONLY", Remedy.PROGRAM, "a sink on a local disk under a cluster master")
    SPARK_CONNECT = ("TG-SPARK-CONNECT", Remedy.PROGRAM, "a Spark Connect session: the protocol needs the driver's JVM")
    TOO_MANY_FILES = (
        "TG-TOO-MANY-FILES",
        Remedy.PROGRAM,
        "so many files are open that the program could not receive Spark's calls",
    )
    STATE_FORMAT = ("TG-STATE-FORMAT", Remedy.PROGRAM, "state of another backend or format than state.backend asks for")
    STATE_MISMATCH = (
        "TG-STATE-MISMATCH",
        Remedy.PROGRAM,
        "the state in the checkpoint does not fit the stateful operators of the query",
    )
    PROGRAM_UNREADABLE = (
        "TG-PROGRAM-UNREADABLE",
        Remedy.PROGRAM,
        "the program's file does not exist or does not parse",
    )
    RESTORE_PARTITIONS = (
        "TG-RESTORE-PARTITIONS",
        Remedy.PROGRAM,
        "another number of state partitions than the savepoint has, and state that cannot be divided again",
    )
    RESTORE_OPERATORS = (
        "TG-RESTORE-OPERATORS",
        Remedy.PROGRAM,
        "stateful operators that the state in the savepoint does not fit",
    )
    JOB_COUNT = ("TG-JOB-COUNT", Remedy.PROGRAM, "a program under `tidegate run` starts one job, no more and no fewer")

    JOB_UNKNOWN = ("TG-JOB-UNKNOWN", Remedy.PROGRAM, "no job of that name in the folder that was searched")
    FOLDER_UNKNOWN = ("TG-FOLDER-UNKNOWN", Remedy.PROGRAM, "the folder of jobs in the command does not exist")
    DRAIN_FAILS = (
        "TG-DRAIN-FAILS",
        Remedy.PROGRAM,
        "the job cannot be drained: its epoch at the end of time fails as often as it is tried",
    )
    REQUEST_REFUSED = (
        "TG-REQUEST-REFUSED",
        Remedy.PROGRAM,
        "a request that the job cannot carry out in its current state",
    )

    # The surroundings.
    JAVA_MISSING = ("TG-JAVA-MISSING", Remedy.SURROUNDINGS, "no Java 17 or newer was found")
    EXTRA_MISSING = (
        "TG-EXTRA-MISSING",
        Remedy.SURROUNDINGS,
        "a source, sink or command needs an extra that is not installed",
    )
    USER_UNNAMED = (
        "TG-USER-UNNAMED",
        Remedy.SURROUNDINGS,
        "the user id of the process has no name, as in a container: Java's login fails without one",
    )
    STORAGE_UNUSABLE = ("TG-STORAGE-UNUSABLE", Remedy.SURROUNDINGS, "a folder cannot be written, synced or linked in")
    STORAGE_FULL = ("TG-STORAGE-FULL", Remedy.SURROUNDINGS, "no space left where a durable record must go")
    OPTION_UNREADABLE = (
        "TG-OPTION-UNREADABLE",
        Remedy.SURROUNDINGS,
        "an option names an environment variable or a file that does not exist",
    )
    KAFKA_UNREACHABLE = ("TG-KAFKA-UNREACHABLE", Remedy.SURROUNDINGS, "the brokers did not answer, or refused")
    KAFKA_TOPIC_MISSING = (
        "TG-KAFKA-TOPIC-MISSING",
        Remedy.SURROUNDINGS,
        "a topic or partition that a source reads, or a sink writes, does not exist",
    )
    SINK_UNUSABLE = ("TG-SINK-UNUSABLE", Remedy.SURROUNDINGS, "a sink's target cannot be opened or written")
    SINK_OUT_OF_REACH = (
        "TG-SINK-OUT-OF-REACH",
        Remedy.SURROUNDINGS,
        "a command cannot open a sink without the job's program",
    )
    SOURCE_OUT_OF_REACH = (
        "TG-SOURCE-OUT-OF-REACH",
        Remedy.SURROUNDINGS,
        "a command cannot open a source without the job's program",
    )
    SINK_UNAVAILABLE = ("TG-SINK-UNAVAILABLE", Remedy.SURROUNDINGS, "a sink did not take a decided epoch in time")
    BROKER_REFUSED = (
        "TG-BROKER-REFUSED",
        Remedy.SURROUNDINGS,
        "the broker for tests cannot be started or stopped in its current state",
    )
    FILE_NAME = ("TG-FILE-NAME", Remedy.SURROUNDINGS, "a file of a source has a name that Spark cannot open")
    PAGE_UNUSABLE = ("TG-PAGE-UNUSABLE", Remedy.SURROUNDINGS, "the page cannot be served at its address")
    BROKER_FAILED = ("TG-BROKER-FAILED", Remedy.SURROUNDINGS, "the broker for tests did not start")
    JARS_UNAVAILABLE = ("TG-JARS-UNAVAILABLE", Remedy.SURROUNDINGS, "jars could not be fetched")
    APPLICATION_ENDED = (
        "TG-APPLICATION-ENDED",
        Remedy.SURROUNDINGS,
        "the cluster ended the application before its driver could use it",
    )
    DRIVER_ALIVE = ("TG-DRIVER-ALIVE", Remedy.SURROUNDINGS, "another driver of this job is alive")
    SUPERVISOR_ALIVE = ("TG-SUPERVISOR-ALIVE", Remedy.SURROUNDINGS, "another `tidegate run` keeps this job alive")
    PROGRAM_FAILED = ("TG-PROGRAM-FAILED", Remedy.SURROUNDINGS, "the program raised an error of its own")

    # A restart cures it.
    PROCESS_SPENT = (
        "TG-PROCESS-SPENT",
        Remedy.RESTART,
        "after an event in this process it cannot run a query again (an epoch with hashmap state was cut off, or"
        " Spark's calls are no longer received): the next run needs a new process",
    )
    LEASE_LOST = ("TG-LEASE-LOST", Remedy.RESTART, "this driver no longer holds the lease of its job; it stops")
    RUN_SUPERSEDED = ("TG-RUN-SUPERSEDED", Remedy.RESTART, "a newer run of the query exists; this one stops")
    GENERATION_SEALED = (
        "TG-GENERATION-SEALED",
        Remedy.RESTART,
        "a restore or a fresh start ends the generation of this run; it stops",
    )
    EPOCH_FINISHED = ("TG-EPOCH-FINISHED", Remedy.RESTART, "Spark wants to run an epoch again that is already finished")
    EPOCH_FAILED = ("TG-EPOCH-FAILED", Remedy.RESTART, "an epoch failed before it was decided; its input comes again")
    SOURCE_FAILED = (
        "TG-SOURCE-FAILED",
        Remedy.RESTART,
        "a source failed while its rows were taken into the ingest log; every row in the log is kept",
    )
    EPOCH_TIMEOUT = (
        "TG-EPOCH-TIMEOUT",
        Remedy.RESTART,
        "an epoch was not prepared within checkpointing.timeout and was cancelled; its input comes again",
    )
    EPOCH_STUCK = (
        "TG-EPOCH-STUCK",
        Remedy.RESTART,
        "an epoch that was cancelled does not end: only the end of its process ends it",
    )
    EPOCH_TORN = ("TG-EPOCH-TORN", Remedy.RESTART, "the results of Spark for an epoch do not belong together")
    FUNCTION_FAILED = (
        "TG-FUNCTION-FAILED",
        Remedy.RESTART,
        "the function of a sink raised an error; the next start calls it with the same epoch first",
    )
    QUERY_FAILED = ("TG-QUERY-FAILED", Remedy.RESTART, "Spark ended a query with an error")
    JOB_NOT_DRAINED = ("TG-JOB-NOT-DRAINED", Remedy.RESTART, "the job has ended without the requested drain")
    DRIVER_DIED = (
        "TG-DRIVER-DIED",
        Remedy.RESTART,
        "the driver's process ended without a report: killed, or out of memory",
    )
    SAVEPOINT_CUT_OFF = ("TG-SAVEPOINT-CUT-OFF", Remedy.RESTART, "the job ended while a savepoint of it was taken")
    DRIVER_STALLED = ("TG-DRIVER-STALLED", Remedy.RESTART, "the driver was alive and did nothing for progress_timeout")

    # The operator has to decide.
    TRANSACTION_UNNAMED = ("TG-TRANSACTION-UNNAMED", Remedy.DECIDE, "no transaction of this name waits in the job")
    TRANSACTION_KEPT = (
        "TG-TRANSACTION-KEPT",
        Remedy.DECIDE,
        "this end of the transaction would lose or repeat rows, or a command cannot do it now",
    )
    STATE_DAMAGED = ("TG-STATE-DAMAGED", Remedy.DECIDE, "a file of a query's state is missing, or was altered")
    STATE_OVERWRITTEN = ("TG-STATE-OVERWRITTEN", Remedy.DECIDE, "hashmap on HDFS: a state file was written over")
    RECORD_CORRUPT = ("TG-RECORD-CORRUPT", Remedy.DECIDE, "a durable record is torn or altered")
    RECORD_NEWER = ("TG-RECORD-NEWER", Remedy.DECIDE, "a durable record was written by a newer release")
    JOB_DRAINED = ("TG-JOB-DRAINED", Remedy.DECIDE, "the job was drained: every row that comes now would be too late")
    SAVEPOINT_REFUSED = ("TG-SAVEPOINT-REFUSED", Remedy.DECIDE, "no savepoint can be taken of the job as it stands")
    SAVEPOINT_INCOMPLETE = (
        "TG-SAVEPOINT-INCOMPLETE",
        Remedy.DECIDE,
        "a savepoint lacks files: it was copied in part, or there is none in the folder",
    )
    SAVEPOINT_CLAIMED = (
        "TG-SAVEPOINT-CLAIMED",
        Remedy.DECIDE,
        "another job continues from this savepoint under the same job id",
    )
    SAVEPOINT_ALTERED = (
        "TG-SAVEPOINT-ALTERED",
        Remedy.DECIDE,
        "a savepoint has changed since it was taken: a file has other bytes, or does not belong to it",
    )
    SAVEPOINT_UNSAFE = (
        "TG-SAVEPOINT-UNSAFE",
        Remedy.DECIDE,
        "a savepoint names or holds a path that leads out of its folder",
    )
    RESTORE_UNMATCHED = (
        "TG-RESTORE-UNMATCHED",
        Remedy.DECIDE,
        "the uids of a savepoint and those of the program do not match",
    )
    RESTORE_PENDING = (
        "TG-RESTORE-PENDING",
        Remedy.DECIDE,
        "transactions of the job wait that a restore would leave behind",
    )
    OPERATOR_CHANGED = (
        "TG-OPERATOR-CHANGED",
        Remedy.DECIDE,
        "a stateful operator of the program is not the one that computed its state",
    )
    RESTORE_STATE = ("TG-RESTORE-STATE", Remedy.DECIDE, "the state that was restored is not the state of the savepoint")
    JOB_MISMATCH = ("TG-JOB-MISMATCH", Remedy.DECIDE, "the checkpoint belongs to another job")
    LEVEL_CHANGED = ("TG-LEVEL-CHANGED", Remedy.DECIDE, "the checkpoint was written at another delivery level")
    LEDGER_HOLE = ("TG-LEDGER-HOLE", Remedy.DECIDE, "a decided epoch has no prepared record that matches Spark's log")
    LEDGER_AMBIGUOUS = ("TG-LEDGER-AMBIGUOUS", Remedy.DECIDE, "two prepared records match a decided epoch")
    OFFSETS_BACKWARDS = ("TG-OFFSETS-BACKWARDS", Remedy.DECIDE, "a source does not resume where the last epoch ended")
    INGEST_LOST = ("TG-INGEST-LOST", Remedy.DECIDE, "the ingest log of a source lacks lines that the checkpoint needs")
    CHANNEL_LOST = ("TG-CHANNEL-LOST", Remedy.DECIDE, "a channel lacks rows that a query has not read yet")
    FILE_LOST = ("TG-FILE-LOST", Remedy.DECIDE, "a file that an epoch has to read is gone")
    FILE_CHANGED = ("TG-FILE-CHANGED", Remedy.DECIDE, "a file has changed since an epoch took it, or while it was read")
    KAFKA_TOPIC_RECREATED = (
        "TG-KAFKA-TOPIC-RECREATED",
        Remedy.DECIDE,
        "a topic was deleted and created again: the checkpoint has offsets of the old topic",
    )
    KAFKA_OFFSETS_LOST = (
        "TG-KAFKA-OFFSETS-LOST",
        Remedy.DECIDE,
        "a topic no longer has records that were not read yet",
    )
    TRANSACTION_LOST = ("TG-TRANSACTION-LOST", Remedy.DECIDE, "a sink lost a decided transaction that has no journal")
    TRANSACTION_UNKNOWN = (
        "TG-TRANSACTION-UNKNOWN",
        Remedy.DECIDE,
        "a sink cannot tell whether a decided transaction was committed",
    )
    SECOND_TIMELINE = (
        "TG-SECOND-TIMELINE",
        Remedy.DECIDE,
        "a sink holds the same epoch with other rows: two checkpoints write to it",
    )
    SINK_AHEAD = ("TG-SINK-AHEAD", Remedy.DECIDE, "a sink holds epochs that the checkpoint does not know")
    SINK_BEHIND = ("TG-SINK-BEHIND", Remedy.DECIDE, "a sink lacks epochs that the checkpoint has finished")
    SINK_OF_ANOTHER_JOB = ("TG-SINK-OF-ANOTHER-JOB", Remedy.DECIDE, "a sink's evidence carries another job id")


class TidegateError(Exception):
    """An error with a stable code, the expected and the found state, the place, and the next step (default: the
    `next_step` of its code).

    `details` holds the same for programs, as far as it is known: `sink`, `source`, `query`, `generation`, `epoch`,
    `task`, `column`, `topic`, `partition`, `offset`, `key`, `file`, and `row`, the row's values as a short text.
    `violations` holds the single errors if there are several against a start.
    """

    def __init__(
        self,
        code: Code,
        *,
        expected: str,
        found: str,
        where: str,
        next_step: str | None = None,
        details: Mapping[str, Detail] | None = None,
        violations: Sequence[TidegateError] = (),
    ) -> None:
        self.catalogue_entry = code
        self.code = code.label
        self.expected = expected
        self.found = found
        self.where = where
        self.next_step = code.next_step if next_step is None else next_step
        self.details: Mapping[str, Detail] = MappingProxyType(dict(details or {}))
        self.violations = tuple(violations)
        super().__init__(self._text())

    def _text(self) -> str:
        row = self.details.get("row")
        told = [
            ("expected", self.expected),
            ("found", self.found),
            ("where", self.where),
            *([] if row is None else [("row", str(row))]),
            ("next", self.next_step),
        ]
        lines = [f"{self.code}: {self.catalogue_entry.meaning}"]
        for name, text in told:
            first, *further = text.splitlines() or [""]
            lines += [f"  {name + ':':<10}{first}", *(f"            {line}" for line in further)]
        for violation in self.violations:
            lines.extend("  " + line for line in str(violation).splitlines())
        return "\n".join(lines)


def raise_all(violations: Sequence[TidegateError], where: str) -> None:
    """Raise nothing, the one violation, or one error that lists them all."""
    match list(violations):
        case []:
            return
        case [single]:
            raise single
        case several:
            raise TidegateError(
                Code.START_REFUSED,
                expected="a job that can start",
                found=f"{len(several)} violations",
                where=where,
                violations=several,
            )
