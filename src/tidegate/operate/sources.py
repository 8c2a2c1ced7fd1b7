"""What a started job leaves in its folder so that its sources can be looked at without its program: *sources.json*.

Written anew at each start, by the driver. It may be lost: the next start writes it again. It holds no secret: what may
be one is left out by its name, and a command that needs it asks for it.
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
    """One source of a job. `told`: the source in a few words, so that a command that only shows it loads no class.
    `target`: its kind under `type`, and what the source says of itself."""

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
    """The description from which `open_source` opens the source again.

    For a class without a kind it has only the name.
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
    """Put *sources.json* into the job's folder, in the place of an older one."""
    storage.replace(SOURCES, _FORMAT.encode(_Sources(format=FORMAT, sources=tuple(sources))))


def read_sources(storage: Storage) -> Sequence[DescribedSource]:
    """The sources as the last start of the job described them; none where no start has."""
    data = storage.read(SOURCES)
    if data is None:
        return ()
    return decode_descriptions(data, _FORMAT, Code.SOURCE_OUT_OF_REACH, SOURCES).sources


def open_source(described: DescribedSource, options: Mapping[str, str]) -> Source:
    """The source, to be looked at. `options` are put in for what was left out.

    Raises SOURCE_OUT_OF_REACH where no installed package has its kind, OPTION_UNREADABLE where an option is missing.
    """
    given = left_out_options(described.target, options, f"source {described.uid}")
    return source_class(described.kind).from_description(described.target, given)


def check_sources(storage: Storage, options: Mapping[str, str]) -> Iterator[Finding]:
    """Every source of a job, as its last start described it."""
    for described in read_sources(storage):
        what = f"source {described.uid}"
        if described.kind == OTHER:
            yield warn(what, f"{described.told}: only the job's program can open it", "start the job")
            continue
        try:
            yield from open_source(described, options).probe(what)
        except TidegateError as error:
            yield warn(what, f"not looked at: {error.found}", error.next_step)
