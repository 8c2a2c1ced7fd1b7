"""JSON as tidegate reads and writes it: values as bytes under a name and a version, and back.

Each reader of JSON gets a value, or `Unreadable` with one `Flaw`. The caller decides what follows: an error, a refused
request, or a file that is ignored. `parsed` reads JSON without a version: Spark's, and values that one release hands to
itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from tidegate.core.digests import sha256
from tidegate.core.errors import Code, TidegateError

if TYPE_CHECKING:
    from typing_extensions import Buffer

ValueT = TypeVar("ValueT")


class Flaw(Enum):
    """Everything that can be wrong with bytes."""

    NOT_JSON = "they are no JSON: torn, no UTF-8, or nested too deep"
    OTHER_FORMAT = "they have another format, or none"
    NEWER = "their version is above the version that this release writes"
    ALTERED = "they do not fit their checksum"
    FIELDS = "a field is missing, is unknown, or has a value that does not fit"


UNFIT = msgspec.MsgspecError
"""What `msgspec.convert` raises for values that do not fit their type."""


class Unreadable(Exception):
    """The bytes are no value of the format. Its text is `found`."""

    def __init__(self, flaw: Flaw, expected: str, found: str) -> None:
        self.flaw = flaw
        self.expected = expected
        self.found = found
        super().__init__(found)

    def error(self, where: str, next_step: str, *, newer_step: str | None = None) -> TidegateError:
        """RECORD_NEWER or RECORD_CORRUPT. `newer_step`: the next step for a newer version; None: that of the code."""
        if self.flaw is Flaw.NEWER and newer_step is None:
            return TidegateError(Code.RECORD_NEWER, expected=self.expected, found=self.found, where=where)
        code, step = (Code.RECORD_NEWER, newer_step) if self.flaw is Flaw.NEWER else (Code.RECORD_CORRUPT, next_step)
        return TidegateError(code, expected=self.expected, found=self.found, where=where, next_step=step)


def parsed(data: bytes | str, holds: type[ValueT], expected: str = "JSON") -> ValueT:
    """The JSON in `data` as a value of this type; `object` for any JSON. Raises `Unreadable`: NOT_JSON or FIELDS."""
    try:
        return msgspec.json.decode(data, type=holds)
    except msgspec.ValidationError as error:
        raise Unreadable(Flaw.FIELDS, expected, str(error)) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unreadable(Flaw.NOT_JSON, expected, str(error)) from None


def readable(lines: Iterable[bytes], holds: type[ValueT]) -> Iterator[ValueT]:
    """The values of JSON lines, without the lines that are torn or hold something else."""
    for line in lines:
        try:
            yield parsed(line, holds)
        except Unreadable:
            continue


@dataclass(frozen=True, slots=True)
class ObjectFormat(Generic[ValueT]):
    """A JSON object with its version in one of its fields, which the value has too. `noun`: the value in an error."""

    holds: type[ValueT]
    noun: str
    version: int
    field: str = "format"

    def encode(self, value: ValueT) -> bytes:
        return msgspec.json.encode(value)

    def decode(self, data: bytes) -> ValueT:
        """Raises `Unreadable`. The fields of a newer version are not looked at."""
        _demand_known(getattr(parsed(data, _only(self.field), self.noun), self.field), self.version)
        return parsed(data, self.holds, self.noun)


@dataclass(frozen=True, slots=True)
class HeaderLine:
    """The first line of a file: `tidegate <name> <version> sha256:<64 hex digits of all that follows>`."""

    name: str
    version: int

    def above(self, body: Buffer) -> bytes:
        return f"tidegate {self.name} {self.version} sha256:{sha256(body)}\n".encode()

    def demand(self, line: bytes, body: Buffer) -> None:
        """Raises `Unreadable` if `line`, with its end, is no such line above this body."""
        words = line.decode("utf-8", "replace").removesuffix("\n").split(" ")
        if len(words) != 4 or words[0] != "tidegate" or not _VERSION.fullmatch(words[2]) or not line.endswith(b"\n"):
            expected = f"a header `tidegate {self.name} {self.version} sha256:...`"
            raise Unreadable(Flaw.OTHER_FORMAT, expected, _beginning(line))
        _demand_known(int(words[2]), self.version)
        _demand_name(words[1], self.name)
        _demand_checksum(words[3], f"sha256:{sha256(body)}", memoryview(body).nbytes)


@dataclass(frozen=True, slots=True)
class RecordFormat(Generic[ValueT]):
    """A durable record: a header line, then one JSON object with its fields in order."""

    holds: type[ValueT]
    header: HeaderLine

    def encode(self, value: ValueT) -> bytes:
        body = msgspec.json.encode(value, order="sorted") + b"\n"
        return self.header.above(body) + body

    def decode(self, data: bytes) -> ValueT:
        """Raises `Unreadable`."""
        line, newline, body = data.partition(b"\n")
        self.header.demand(line + newline, body)
        return parsed(body, self.holds, f"the fields of `{self.header.name}`")


@dataclass(frozen=True, slots=True)
class ListFormat(Generic[ValueT]):
    """JSON values, one a line, below a JSON object with the name, the version and the SHA-256 of these lines.

    The object also has the name of the list that this one follows, and a token by which lists with equal values differ.
    """

    holds: type[ValueT]
    name: str
    version: int

    def encode(self, values: Sequence[ValueT], *, follows: str = "", token: str = "") -> bytes:
        body = b"\n".join(msgspec.json.encode(each) for each in values)
        header = _ListHeader(tidegate=self.name, format=self.version, sha256=sha256(body), follows=follows, token=token)
        return b"\n".join([msgspec.json.encode(header), *([body] if values else [])])

    def decode(self, data: bytes) -> list[ValueT]:
        """Raises `Unreadable`."""
        header, body = self._opened(data)
        _demand_checksum(header.sha256, sha256(body), len(body))
        return [
            parsed(each, self.holds, f"the fields of a line of `{self.name}`") for each in body.split(b"\n") if each
        ]

    def follows(self, data: bytes) -> str:
        """What `encode` was given as `follows`. Raises `Unreadable`; the values are not looked at."""
        return self._opened(data)[0].follows

    def _opened(self, data: bytes) -> tuple[_ListHeader, bytes]:
        line, _, body = data.partition(b"\n")
        try:
            header = parsed(line, _ListHeader)
        except Unreadable:
            raise Unreadable(Flaw.OTHER_FORMAT, f"the header of a `{self.name}`", _beginning(line)) from None
        _demand_known(header.format, self.version)
        _demand_name(header.tidegate, self.name)
        return header, body


class _ListHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    tidegate: str
    format: int
    sha256: str
    follows: str = ""
    token: str = ""


_VERSION = re.compile("[1-9][0-9]{0,8}")


@cache
def _only(field: str) -> type[msgspec.Struct]:
    """A type that decodes only this field of a JSON object and ignores the others."""
    return msgspec.defstruct("VersionOnly", [(field, int)])


def _demand_known(version: int, newest: int) -> None:
    if version > newest:
        raise Unreadable(Flaw.NEWER, f"format version {newest} or older", f"format version {version}")
    if version < 1:
        raise Unreadable(Flaw.OTHER_FORMAT, f"a format version from 1 to {newest}", f"format version {version}")


def _demand_name(name: str, wanted: str) -> None:
    if name != wanted:
        raise Unreadable(Flaw.OTHER_FORMAT, f"a record of kind `{wanted}`", f"kind `{name}`")


def _demand_checksum(said: str, computed: str, size_bytes: int) -> None:
    if said != computed:
        raise Unreadable(Flaw.ALTERED, "a body that fits its checksum", f"{size_bytes} bytes that do not")


def _beginning(line: bytes) -> str:
    return repr(line.removesuffix(b"\n")[:80])
