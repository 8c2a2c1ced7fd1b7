"""The entry of one query in a savepoint, read from the files that it keeps."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidegate.checkpoints.spark_layout import STATE, entry_numbers
from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.records import DoneEpoch, SavedQuery, StatefulOperator, digest_of
from tidegate.core.spark_log import parse_commits, parse_offsets
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where
from tidegate.storages.storage import Storage

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"
_BACKENDS: Mapping[str, str] = {"RocksDBStateStoreProvider": "rocksdb", "HDFSBackedStateStoreProvider": "hashmap"}


def saved_query(done: DoneEpoch, spark: Where) -> SavedQuery:
    """Describe a query by its done epoch and the matching copy of Spark's checkpoint."""
    offsets, commits = parse_offsets(done.offsets), parse_commits(done.commits)
    if offsets is None or commits is None:
        raise _unreadable(f"the log entries of epoch {done.epoch}", spark, "they are torn")
    provider = offsets.conf.get(_PROVIDER)
    partitions = offsets.conf.get(_PARTITIONS)
    backend = None if provider is None else _BACKENDS.get(provider.rpartition(".")[2], provider)
    operators = operators_of(spark, done.operator_uids)
    same = (done.sources, done.sinks, operators, backend, partitions)
    return SavedQuery(
        done=done,
        ends=dict(zip(done.sources, offsets.positions, strict=True)),
        watermark_ms=commits.next_watermark_ms,
        backend=backend,
        partitions=None if partitions is None else int(partitions),
        operators=operators,
        fingerprint=digest_of(msgspec.json.encode(same, order="sorted")),
    )


def operators_of(spark: Where, uids: Mapping[str, str]) -> tuple[StatefulOperator, ...]:
    """The stateful operators of a query, from Spark's records; their uids, by number, come from the program. Raises
    SAVEPOINT_REFUSED if Spark has not written the records.
    """
    storage = open_storage(spark)
    numbers = entry_numbers(storage.folders(STATE))
    return tuple(_operator(storage, f"{STATE}/{number}/_metadata", uids.get(str(number), "")) for number in numbers)


class _Info(msgspec.Struct, frozen=True):
    operatorId: int  # noqa: N815 (Spark's name)
    operatorName: str  # noqa: N815


class _Store(msgspec.Struct, frozen=True):
    storeName: str  # noqa: N815
    numPartitions: int  # noqa: N815


class _Metadata(msgspec.Struct, frozen=True):
    """`state/<operator>/_metadata`: `metadata` in version 1, `v2/<epoch>` in version 2; a version line, then JSON."""

    operatorInfo: _Info  # noqa: N815
    stateStoreInfo: tuple[_Store, ...]  # noqa: N815


def _operator(storage: Storage, folder: str, uid: str) -> StatefulOperator:
    epochs = entry_numbers(storage.peek_names(f"{folder}/v2"))
    name = f"{folder}/v2/{epochs[-1]}" if epochs else f"{folder}/metadata"
    try:
        found = parsed((storage.peek(name) or b"").partition(b"\n")[2], _Metadata)
    except Unreadable as error:
        raise _unreadable("Spark's metadata of a stateful operator", storage.where(name), str(error)) from error
    return StatefulOperator(
        number=found.operatorInfo.operatorId,
        name=found.operatorInfo.operatorName,
        stores=tuple(store.storeName for store in found.stateStoreInfo),
        partitions=max((store.numPartitions for store in found.stateStoreInfo), default=0),
        uid=uid,
    )


def _unreadable(what: str, where: Where, found: str) -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected=what,
        found=found,
        where=str(where),
        next_step="take it again after the job's next epoch",
    )
