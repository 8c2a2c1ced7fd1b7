"""The descriptions of a job's sources: *sources.json* in the job's folder, so that commands can check the sources
without the program.

The driver writes the file at each start. If it is lost, the next start writes it again. It holds no secret: an option
that may be a secret is left out; only its name is stored, and a command that needs the source requests the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding, warn
from tidegate.operate.described import (
    FORMAT,
    OTHER,
    decode_descriptions,
    descriptions_of,
    left_out_options,
    through_json,
)
from tidegate.sources.base import Source
from tidegate.sources.kinds import kind_of, source_class
from tidegate.storages.storage import Storage

SOURCES = "sources.json"


class DescribedSource(msgspec.Struct, frozen=True, kw_only=True):
    """The description of one source. `told`: the source in a few words, so that a command that only shows the words
    loads no class. `target`: the kind of the source under `type`, and the result of the source's `describe`."""

    uid: str
    told: str
    target: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.target["type"])


class _Sources(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    sources: tuple[DescribedSource, ...]


_FORMAT = descriptions_of("sources", _Sources)


def describe_source(uid: str, source: Source) -> DescribedSource:
    """The description of a source. `open_source` opens the source again from it.

    For a class without a kind the description has only the name of the class, and only the program can open it.
    """
    kind = kind_of(source)
    if not kind:
        return only_the_program_opens(uid, source)
    described = source.describe()
    target = through_json({"type": kind, **described})
    return DescribedSource(uid=uid, told=type(source).told(described), target=target)


def only_the_program_opens(uid: str, source: object) -> DescribedSource:
    """The description of a source that only the job's program can open."""
    name = type(source).__name__
    return DescribedSource(uid=uid, told=name, target={"type": OTHER, "what": name})


def write_sources(storage: Storage, sources: Sequence[DescribedSource]) -> None:
    """Write *sources.json* into the job's folder. An older file is replaced."""
    storage.replace(SOURCES, _FORMAT.encode(_Sources(format=FORMAT, sources=tuple(sources))))


def read_sources(storage: Storage) -> Sequence[DescribedSource]:
    """The sources as the last start of the job described them; empty if no start has written *sources.json*."""
    data = storage.read(SOURCES)
    if data is None:
        return ()
    return decode_descriptions(data, _FORMAT, Code.SOURCE_OUT_OF_REACH, SOURCES).sources


def open_source(described: DescribedSource, options: Mapping[str, str]) -> Source:
    """The source, to be checked by a command. `options`: values for the options that the description leaves out.

    Raises SOURCE_OUT_OF_REACH if no installed package has a source of this kind, OPTION_UNREADABLE if the value of an
    option is missing.
    """
    given = left_out_options(described.target, options, f"source {described.uid}")
    return source_class(described.kind).from_description(described.target, given)


def check_sources(storage: Storage, options: Mapping[str, str]) -> Iterator[Finding]:
    """For `tidegate check`: test whether each source in *sources.json* can be read, without the job's program.

    Yields the findings of each source's `probe`, good or bad, and a warning for a source that cannot be opened.
    `options`: values for the options that the descriptions leave out.
    """
    for described in read_sources(storage):
        what = f"source {described.uid}"
        if described.kind == OTHER:
            yield warn(what, f"{described.told}: only the job's program can open it", "start the job")
            continue
        try:
            yield from open_source(described, options).probe(what)
        except TidegateError as error:
            yield warn(what, f"not looked at: {error.found}", error.next_step)
