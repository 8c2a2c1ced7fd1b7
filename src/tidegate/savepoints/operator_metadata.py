"""Spark's metadata of a stateful operator: the number of partitions of its state, and the places of its schemas.

A version line, then JSON: `state/<operator>/_metadata/metadata` in version 1, and in version 2 (pyspark 4.2 and 4.3:
operators of transformWithState) `_metadata/v2/<epoch>`. Version 2 refers to its schemas by absolute paths. Spark opens
exactly these paths, so in a restored checkpoint they must lead into it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed

_NAME = re.compile(r"state/\d+/_metadata/v2/(\d+|\.\d+\.crc)")
_COUNTS = re.compile(r"state/\d+/_metadata/(metadata|v2/\d+)")
_OPERATOR = re.compile(r"state/\d+/_metadata/(metadata|\.metadata\.crc|v2/(\d+|\.\d+\.crc))")
_SCHEMA = re.compile(r"(?P<scheme>file:(?://)?|[a-z][a-z0-9]*://[^/]*)?/.*?(?P<below>/state/\d+/_stateSchema/.+)")


def names_schemas(name: str) -> bool:
    """True if this file of a Spark checkpoint is metadata of version 2, or the checksum of such a file.

    Such metadata refers to schemas by absolute paths. A change of the metadata makes the checksum wrong.
    """
    return _NAME.fullmatch(name) is not None


def counts_partitions(name: str) -> bool:
    """True if this file of a Spark checkpoint holds the number of partitions of an operator's state."""
    return _COUNTS.fullmatch(name) is not None


def names_operator(name: str) -> bool:
    """True if this file of a Spark checkpoint holds an operator's id (a number), or is the checksum of such a file."""
    return _OPERATOR.fullmatch(name) is not None


def moved_name(name: str, places: Mapping[int, int]) -> str | None:
    """The name of a file of a Spark checkpoint after operators got other numbers; None for state of an operator without
    a new number.
    """
    root, _, below = name.partition("/")
    number, _, rest = below.partition("/")
    if root != "state" or not number.isdecimal():
        return name
    now = places.get(int(number))
    return None if now is None else f"state/{now}/{rest}"


def renumbered(data: bytes, places: Mapping[int, int], where: str) -> bytes:
    """The metadata of the same operator under its new number, also in the paths of its schemas. Raises
    RECORD_CORRUPT.
    """
    version, newline, body = data.partition(b"\n")
    try:
        found = parsed(body, dict[str, Any])
        before = found["operatorInfo"]["operatorId"]
        changed = {**found, "operatorInfo": {**found["operatorInfo"], "operatorId": places[before]}}
    except (Unreadable, KeyError, TypeError) as error:
        raise _error(Code.RECORD_CORRUPT, "a JSON object with its operator", str(error), where) from None
    schemas = f"/state/{before}/_stateSchema/".encode(), f"/state/{places[before]}/_stateSchema/".encode()
    return version + newline + msgspec.json.encode(changed).replace(*schemas)


def divided(data: bytes, partitions: int, where: str) -> bytes:
    """The metadata of the same operator with this number of partitions. Raises RECORD_CORRUPT."""
    version, newline, body = data.partition(b"\n")
    try:
        found = parsed(body, dict[str, Any])
        stores = [{**store, "numPartitions": partitions} for store in found["stateStoreInfo"]]
    except (Unreadable, KeyError, TypeError) as error:
        raise _error(Code.RECORD_CORRUPT, _WITH_STORES, str(error), where) from None
    return version + newline + msgspec.json.encode({**found, "stateStoreInfo": stores})


def prefix_columns(data: bytes, where: str) -> dict[str, int]:
    """By store, the number of key columns with which its scans begin: an order of the rows in rocksdb, an index in
    hashmap. For version 1; version 2 keeps it elsewhere. Raises RECORD_CORRUPT.
    """
    try:
        found = parsed(data.partition(b"\n")[2], dict[str, Any])
        return {store["storeName"]: int(store["numColsPrefixKey"]) for store in found["stateStoreInfo"]}
    except (Unreadable, KeyError, TypeError) as error:
        raise _error(Code.RECORD_CORRUPT, _WITH_STORES, str(error), where) from None


def state_variables(data: bytes, where: str) -> list[str]:
    """The names of the state variables of an operator of transformWithState, including timers. For version 2. Raises
    RECORD_CORRUPT.
    """
    try:
        found = parsed(data.partition(b"\n")[2], dict[str, Any])
        properties = parsed(found["operatorPropertiesJson"], dict[str, Any])
        return [variable["stateName"] for variable in properties["stateVariables"]]
    except (Unreadable, KeyError, TypeError) as error:
        raise _error(Code.RECORD_CORRUPT, "a JSON object with its state variables", str(error), where) from None


def moved_to(data: bytes, checkpoint: Path | str, where: str) -> bytes:
    """The metadata with every path of a schema leading into `checkpoint`. Raises RECORD_CORRUPT, RECORD_NEWER and
    SAVEPOINT_UNSAFE for unknown contents: Spark would read the schema of another checkpoint, or none.
    """
    version, newline, body = data.partition(b"\n")
    if version != b"v2":
        raise _error(Code.RECORD_NEWER, "version v2", repr(version[:20]), where)
    try:
        found = parsed(body, object)
    except Unreadable as error:
        raise _error(Code.RECORD_CORRUPT, "a JSON object", str(error), where) from None
    return version + newline + msgspec.json.encode(_moved(found, checkpoint, where))


def _moved(value: Any, checkpoint: Path | str, where: str) -> Any:
    match value:
        case dict():
            return {key: _moved(each, checkpoint, where) for key, each in cast("dict[str, Any]", value).items()}
        case list():
            return [_moved(each, checkpoint, where) for each in cast("list[Any]", value)]
        case str() if "/_stateSchema/" in value:
            path = _SCHEMA.fullmatch(value)
            if path is None or ".." in value.split("/"):
                raise _error(Code.SAVEPOINT_UNSAFE, "the path of a schema in a checkpoint", repr(value), where)
            scheme = path["scheme"] or ""
            on_a_disk = str(checkpoint).startswith("/") and scheme.startswith("file:")
            return f"{scheme if on_a_disk else ''}{checkpoint}{path['below']}"
        case _:
            return value


_WITH_STORES = "a JSON object with its stores"


def _error(code: Code, expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        code,
        expected=f"Spark's metadata of a stateful operator: {expected}",
        found=found,
        where=where,
        next_step="restore it with the release of tidegate and of Spark that it was taken with",
    )
