"""The way to a table: its catalog, and the one kind of commit that the sink makes."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.utils.config import Config

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS, may_be_secret
from tidegate.core.telling import DETAIL_AT_MOST, shortened
from tidegate.sinks.iceberg.synced_io import REFERENCE
from tidegate.storages.client_settings import client_settings
from tidegate.storages.schemes import Folder, Scheme

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

SCHEMES = (Scheme.FILE, Scheme.S3)

_S3_NAMES: Mapping[str, str] = {
    "AWS_REGION": "s3.region",
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
}
"""The library's names for the settings of the S3 client."""

_open: dict[tuple[int, str, str], tuple[Mapping[str, str], Catalog]] = {}
"""By process, catalog and the sink's own properties: the catalog, and all properties that it was opened with."""


class TableError(Exception):
    """What the catalog, the table or its storage has refused: the library's own words, without secrets."""


class Overtaken(Exception):
    """Another commit came first: the table is not as it was read."""


@dataclass(frozen=True, slots=True)
class CataloguedTable:
    """A table by its name in a catalog. It travels to the tasks, so it holds settings only.

    `catalog`: the name of the catalog. `properties`: its properties, beside those of the library's configuration.
    `table`: namespace and name of the table. `location`: of a table that the sink creates, or None.
    """

    catalog: str
    properties: Mapping[str, str]
    table: tuple[str, ...]
    location: str | None = None

    def __str__(self) -> str:
        return f"{'.'.join(self.table)} in catalog {self.catalog!r}"

    def read(self) -> Table | None:
        """The table as it is now; None if there is none. Raises TableError."""
        with in_library():
            try:
                return self.opened().load_table(self.table)
            except NoSuchTableError:
                return None

    def commit(self, table: Table, updates: Sequence[Any], requirements: Sequence[Any]) -> None:
        """One try of a commit. Raises Overtaken if a requirement is not met, TableError if the result is unknown.

        Not by the library's own commit: that tries again behind a conflict, and takes the rows of a driver that was
        paused into the table a second time. The table's property for it would bind all other writers.
        """
        with in_library():
            cast("Any", table)._do_commit(tuple(updates), tuple(requirements))

    def opened(self) -> Catalog:
        """The catalog. Its connection belongs to the process, and is made anew when credentials change."""
        key = os.getpid(), self.catalog, repr(sorted(self.properties.items()))
        properties = self._all_properties()
        held = _open.get(key)
        if held is None or held[0] != properties:
            _open[key] = held = properties, load_catalog(self.catalog, **properties)
        return held[1]

    def shown(self) -> dict[str, str]:
        """The properties that surely hold no secret."""
        return {name: value for name, value in self.properties.items() if not _may_hide(name, value)}

    def keep_secrets(self) -> None:
        """From now on no text shows a value that may be secret."""
        for name, value in self.properties.items():
            if may_be_secret(name):
                SECRETS.add(value)

    def planned_location(self) -> str | None:
        """Where a new table would stand, as far as the sink knows before it is created."""
        return self.location or self._configured().get("warehouse")

    def _configured(self) -> dict[str, str]:
        found = Config().get_catalog_config(self.catalog) or {}
        return {name: str(value) for name, value in {**found, **self.properties}.items()}

    def _all_properties(self) -> dict[str, str]:
        """What the user has given, and for the rest what checkpoints use."""
        given = self._configured()
        own = {"py-io-impl": REFERENCE}
        place = self.planned_location()
        if place is not None and place.startswith(("s3://", "s3a://")) and "s3.access-key-id" not in given:
            settings = client_settings(folder_at(place))
            own |= {name: settings[held] for held, name in _S3_NAMES.items() if held in settings}
        missing = {name: value for name, value in own.items() if name not in given}
        return {**missing, **self.properties}


def folder_at(location: str) -> Folder:
    """The folder of a location as a table's metadata writes it: without escapes."""
    parts = urlsplit(location)
    return Folder.of(Path(parts.path)) if parts.scheme == "file" else Folder.of(location)


@contextmanager
def reached(place: CataloguedTable, uid: str) -> Generator[None]:
    """An error of the catalog, the table or the storage ends the run: SINK_UNUSABLE."""
    try:
        yield
    except TableError as error:
        raise unusable(str(error), place, uid) from None


def unusable(found: str, place: CataloguedTable, uid: str) -> TidegateError:
    """The error of a table that cannot be used as it is."""
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected="an Iceberg table, or a catalog that can create it, which can be read and written",
        found=found,
        where=f"sink {uid!r}: {place}",
        next_step="correct what the message names (the catalog's properties, its server, the storage and its "
        "credentials); then start again: nothing is lost",
    )


def told(error: BaseException) -> str:
    """The library's own words, without secrets."""
    return shortened(SECRETS.hide(f"{type(error).__name__}: {error}"), DETAIL_AT_MOST)


@contextmanager
def in_library() -> Generator[None]:
    """Errors of the library and of its clients as Overtaken or TableError. They have no common class, but an error in a
    program has.
    """
    try:
        yield
    except (TidegateError, TableError, Overtaken, TypeError, AttributeError, NameError):
        raise
    except CommitFailedException as error:
        raise Overtaken(told(error)) from None
    except Exception as error:  # noqa: BLE001
        raise TableError(told(error)) from None


def _may_hide(name: str, value: str) -> bool:
    return may_be_secret(name) or "@" in value
