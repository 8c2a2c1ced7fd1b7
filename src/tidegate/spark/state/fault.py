"""Spark's error conditions for state that a query cannot resume from, and the tidegate error code of each.

Spark gives every such error a condition with parameters (`SparkThrowable.getCondition`, `error-conditions.json` of
spark-common-utils). Both arrive as values, also from a task, so no text is searched. Each restart would fail with the
same error, so the job is not restarted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError

from tidegate.checkpoints.job_layout import CHECKPOINTS
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import StatefulOperator
from tidegate.savepoints.query import operators_of
from tidegate.storages.schemes import Folder

_LOAD = "CANNOT_LOAD_STATE_STORE"

CODES: Mapping[str, Code | None] = {
    # The program has other operators, or other settings of state, than the checkpoint.
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA": Code.STATE_MISMATCH,
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE": Code.STATE_MISMATCH,
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE": Code.STATE_MISMATCH,
    "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE": Code.STATE_MISMATCH,
    "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE": Code.STATE_MISMATCH,
    f"{_LOAD}.KEY_ROW_FORMAT_VALIDATION_FAILURE": Code.STATE_MISMATCH,
    f"{_LOAD}.VALUE_ROW_FORMAT_VALIDATION_FAILURE": Code.STATE_MISMATCH,
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE": Code.STATE_MISMATCH,
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART": Code.STATE_MISMATCH,
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION": Code.STATE_MISMATCH,
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE": Code.STATE_MISMATCH,
    "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED": Code.STATE_MISMATCH,
    "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED": Code.STATE_MISMATCH,
    "STATE_STORE_UNKNOWN_INTERNAL_COLUMN_FAMILY": Code.STATE_MISMATCH,
    "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED": Code.STATE_MISMATCH,
    "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS": Code.STATE_MISMATCH,
    "STDS_MIXED_CHECKPOINT_FORMAT_VERSIONS_NOT_SUPPORTED": Code.STATE_MISMATCH,
    # A file of state is missing, or has been altered.
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY": Code.STATE_DAMAGED,
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED": Code.STATE_DAMAGED,
    "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED": Code.STATE_DAMAGED,
    "STREAM_STREAM_JOIN_INCONSISTENT_STATE.NULL_VALUE": Code.STATE_DAMAGED,
    "STREAM_STREAM_JOIN_INCONSISTENT_STATE.RANGE_SCAN_TIMESTAMP_OUT_OF_RANGE": Code.STATE_DAMAGED,
    f"{_LOAD}.AUTO_SNAPSHOT_REPAIR_FAILED": Code.STATE_DAMAGED,
    f"{_LOAD}.CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT": Code.STATE_DAMAGED,
    f"{_LOAD}.CANNOT_READ_CHECKPOINT": Code.STATE_DAMAGED,
    f"{_LOAD}.CANNOT_READ_DELTA_FILE_KEY_SIZE": Code.STATE_DAMAGED,
    f"{_LOAD}.CANNOT_READ_DELTA_FILE_NOT_EXISTS": Code.STATE_DAMAGED,
    f"{_LOAD}.CANNOT_READ_MISSING_SNAPSHOT_FILE": Code.STATE_DAMAGED,
    f"{_LOAD}.CANNOT_READ_SNAPSHOT_FILE_KEY_SIZE": Code.STATE_DAMAGED,
    f"{_LOAD}.CANNOT_READ_SNAPSHOT_FILE_VALUE_SIZE": Code.STATE_DAMAGED,
    f"{_LOAD}.CANNOT_READ_STREAMING_STATE_FILE": Code.STATE_DAMAGED,
    f"{_LOAD}.INVALID_CHECKPOINT_LINEAGE": Code.STATE_DAMAGED,
    f"{_LOAD}.SNAPSHOT_PARTITION_ID_NOT_FOUND": Code.STATE_DAMAGED,
    f"{_LOAD}.UNEXPECTED_FILE_SIZE": Code.STATE_DAMAGED,
    f"{_LOAD}.UNEXPECTED_VERSION": Code.STATE_DAMAGED,
    "STDS_FAILED_TO_READ_OPERATOR_METADATA": Code.STATE_DAMAGED,
    "STDS_FAILED_TO_READ_STATE_SCHEMA": Code.STATE_DAMAGED,
    "STDS_NO_PARTITION_DISCOVERED_IN_STATE_STORE": Code.STATE_DAMAGED,
    "STREAMING_UNFINISHED_REPARTITION_DETECTED": Code.STATE_DAMAGED,
    # An entry of Spark's own log is missing or altered.
    "MALFORMED_LOG_FILE": Code.RECORD_CORRUPT,
    "BATCH_METADATA_NOT_FOUND": Code.RECORD_CORRUPT,
    "STREAMING_CHECKPOINT_MISSING_METADATA_FILE": Code.RECORD_CORRUPT,
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY": Code.RECORD_CORRUPT,
    "STDS_COMMITTED_BATCH_UNAVAILABLE": Code.RECORD_CORRUPT,
    "STDS_OFFSET_LOG_UNAVAILABLE": Code.RECORD_CORRUPT,
    "STDS_OFFSET_METADATA_LOG_UNAVAILABLE": Code.RECORD_CORRUPT,
    # A newer Spark wrote it.
    "INVALID_LOG_VERSION.EXACT_MATCH_VERSION": Code.RECORD_NEWER,
    "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION": Code.RECORD_NEWER,
    f"{_LOAD}.INVALID_CHANGE_LOG_READER_VERSION": Code.RECORD_NEWER,
    # Spark's state does not support a request of the program.
    f"{_LOAD}.INVALID_CHANGE_LOG_WRITER_VERSION": Code.QUERY_REFUSED,
    "STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY_WITH_RESERVED_CHARS": Code.QUERY_REFUSED,
    "STATE_STORE_CANNOT_USE_COLUMN_FAMILY_WITH_INVALID_NAME": Code.QUERY_REFUSED,
    "STATE_STORE_HANDLE_NOT_INITIALIZED": Code.QUERY_REFUSED,
    "STATE_STORE_INCORRECT_NUM_ORDERING_COLS_FOR_RANGE_SCAN": Code.QUERY_REFUSED,
    "STATE_STORE_INCORRECT_NUM_PREFIX_COLS_FOR_PREFIX_SCAN": Code.QUERY_REFUSED,
    "STATE_STORE_INVALID_PROVIDER": Code.QUERY_REFUSED,
    "STATE_STORE_NULL_TYPE_ORDERING_COLS_NOT_SUPPORTED": Code.QUERY_REFUSED,
    "STATE_STORE_PROVIDER_DOES_NOT_SUPPORT_FINE_GRAINED_STATE_REPLAY": Code.QUERY_REFUSED,
    "STATE_STORE_UNSUPPORTED_OPERATION": Code.QUERY_REFUSED,
    "STATE_STORE_UNSUPPORTED_OPERATION_BINARY_INEQUALITY": Code.QUERY_REFUSED,
    "STATE_STORE_UNSUPPORTED_OPERATION_ON_MISSING_COLUMN_FAMILY": Code.QUERY_REFUSED,
    "STATE_STORE_VARIABLE_SIZE_ORDERING_COLS_NOT_SUPPORTED": Code.QUERY_REFUSED,
    "STDS_CONFLICT_OPTIONS": Code.QUERY_REFUSED,
    "STDS_INVALID_OPTION_VALUE.IS_EMPTY": Code.QUERY_REFUSED,
    "STDS_INVALID_OPTION_VALUE.IS_NEGATIVE": Code.QUERY_REFUSED,
    "STDS_INVALID_OPTION_VALUE.WITH_MESSAGE": Code.QUERY_REFUSED,
    "STDS_REQUIRED_OPTION_UNSPECIFIED": Code.QUERY_REFUSED,
    # Memory, threads and disks: another run may succeed. The first one's cause decides, if it has one.
    f"{_LOAD}.UNCATEGORIZED": None,
    f"{_LOAD}.FAILED_TO_GET_CHANGELOG_WRITER": None,
    f"{_LOAD}.HDFS_STORE_PROVIDER_OUT_OF_MEMORY": None,
    f"{_LOAD}.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY": None,
    f"{_LOAD}.UNRELEASED_THREAD_ERROR": None,
    "CANNOT_WRITE_STATE_STORE.CANNOT_COMMIT": None,
    "STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH": None,
    "STATE_STORE_COMMIT_VALIDATION_FAILED": None,
    "STATE_STORE_INVALID_STAMP": None,
    "STATE_STORE_INVALID_STATE_MACHINE_TRANSITION": None,
    "STATE_STORE_OPERATION_OUT_OF_ORDER": None,
    "STATE_STORE_UNEXPECTED_EMPTY_FILE_IN_ROCKSDB_ZIP": None,
    "STDS_INTERNAL_ERROR": None,
    "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.COMMIT_LOG": None,
    "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE.OFFSET_LOG": None,
}
"""Every condition of Spark 4.2 and 4.3 about state or the log; None: a restart may help."""

KINDS = (
    "STATE_STORE_",
    f"{_LOAD}.",
    "CANNOT_WRITE_STATE_STORE.",
    "CHECKPOINT_FILE_",
    "STREAMING_STATEFUL_",
    "STREAMING_CHECKPOINT_",
    "STREAMING_UNFINISHED_",
    "STREAM_STREAM_JOIN_",
    "STDS_",
    "INVALID_LOG_VERSION.",
    "MALFORMED_LOG_FILE",
    "BATCH_METADATA_NOT_FOUND",
)
"""The common beginnings of these conditions' names."""

_SIDES = (
    ("storedKeySchema", "newKeySchema"),
    ("storedValueSchema", "newValueSchema"),
    ("OpsInMetadataSeq", "OpsInCurBatchSeq"),
    ("oldSchema", "newSchema"),
    ("oldValueSchema", "newValueSchema"),
    ("oldConfig", "newConfig"),
    ("oldType", "newType"),
)
"""Parameters of a condition with the checkpoint's value and the program's value."""

_FILES = ("fileToRead", "fileName", "dfsFile", "batchMetadataFile")
_TORN = frozenset({"java.io.EOFException", "java.io.UTFDataFormatException", "org.apache.hadoop.fs.ChecksumException"})
"""Java's exceptions for a file that ends too early or has a wrong checksum. Spark adds no condition to some."""

_STATE_PACKAGE = "org.apache.spark.sql.execution.streaming.state."


def state_fault(thrown: Any, query: str, folder: Folder, uids: Mapping[str, str]) -> TidegateError | None:
    """The tidegate error for a Java exception that ended a query; None if checkpoint and program are not the cause.

    `folder`: the folder of the query's generation. `uids`: the operators' uids by number.
    """
    try:
        for each in _causes(thrown):
            condition, parameters = _condition(each)
            code = CODES.get(condition) or (Code.STATE_DAMAGED if _is_torn_state(each) else None)
            if code is not None:
                said = condition or f"{each.getClass().getName()}: {each.getMessage() or 'the file ends too early'}"
                return _fault(code, said, parameters, query, folder, uids)
    except Py4JError:  # the JVM is dead, so its error cannot be read
        pass
    return None


def _causes(thrown: Any) -> Iterator[Any]:
    """The throwable and its causes, innermost last; a chain of causes is short."""
    for _ in range(_CAUSES_AT_MOST):
        if thrown is None:
            return
        yield thrown
        thrown = thrown.getCause()


_CAUSES_AT_MOST = 20


def _condition(thrown: Any) -> tuple[str, Mapping[str, str]]:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if gateway is None or not is_instance_of(gateway, thrown, "org.apache.spark.SparkThrowable"):
        return "", {}
    return str(thrown.getCondition() or ""), dict(thrown.getMessageParameters() or {})


def _is_torn_state(thrown: Any) -> bool:
    """True if a state file ends too early.

    Spark has no error condition for this, so the class that read the file shows it.
    """
    if thrown.getClass().getName() not in _TORN:
        return False
    return any(str(frame.getClassName()).startswith(_STATE_PACKAGE) for frame in thrown.getStackTrace())


def _fault(
    code: Code, said: str, parameters: Mapping[str, str], query: str, folder: Folder, uids: Mapping[str, str]
) -> TidegateError:
    sides = next(((has, wants) for has, wants in _SIDES if has in parameters and wants in parameters), None)
    file = next((parameters[name] for name in _FILES if name in parameters), None)
    where = file.removeprefix("file:") if file else _operators(folder / "spark", uids)
    if sides is None:
        rest = ", ".join(f"{name}={value}" for name, value in sorted(parameters.items()) if name not in _FILES)
        expected, found = _EXPECTED[code], f"{said}{': ' if rest else ''}{rest}"
    else:
        expected = f"{_EXPECTED[code]}: {parameters[sides[0]] or 'none'}"
        found = f"{parameters[sides[1]] or 'none'} ({said})"
    kept = folder.parent.parent.parent / CHECKPOINTS
    return TidegateError(
        code,
        expected=expected,
        found=found,
        where=f"{query}, {where}",
        next_step=_NEXT[code].format(kept=kept),
    )


def _operators(spark: Folder, uids: Mapping[str, str]) -> str:
    """The stateful operators of the checkpoint: Spark does not report which of them failed."""
    try:
        found = operators_of(spark, uids)
    except TidegateError:
        found = ()
    named = ", ".join(_named(each) for each in found)
    return f"{'operator' if len(found) == 1 else 'one of the operators'} {named}" if found else str(spark)


def _named(operator: StatefulOperator) -> str:
    return f"{operator.number} ({operator.name}{f', uid {operator.uid}' if operator.uid else ''})"


_EXPECTED: Mapping[Code, str] = {
    Code.STATE_MISMATCH: "the state that the checkpoint has",
    Code.STATE_DAMAGED: "every file of state as it was written",
    Code.RECORD_CORRUPT: "every entry of Spark's log as it was written",
    Code.RECORD_NEWER: "a checkpoint that this release of Spark can read",
    Code.QUERY_REFUSED: "a query that Spark can keep state for",
}

_GO_BACK = "go back to a savepoint, or to a retained checkpoint in {kept}: tidegate run -s PATH"
_NEXT: Mapping[Code, str] = {
    Code.STATE_MISMATCH: "put the operator, or the setting, back as it was; or keep the positions and begin with empty"
    " state: tidegate run -s PATH --offsets-only, with a savepoint or a retained checkpoint in {kept}",
    Code.STATE_DAMAGED: f"put the file back from a copy; or {_GO_BACK}",
    Code.RECORD_CORRUPT: f"put the file back from a copy; or {_GO_BACK}",
    Code.RECORD_NEWER: f"start with the release of Spark that wrote the checkpoint; or {_GO_BACK}",
    Code.QUERY_REFUSED: "change the query as Spark says (`tidegate check APP` tries it), then start again",
}
