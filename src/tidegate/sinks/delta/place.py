"""The way to a table: its location, its snapshots, and the entries of its log."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import parsed
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import DETAIL_AT_MOST, shortened
from tidegate.storages.client_settings import client_settings
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder, Scheme
from tidegate.storages.storage import Storage

TABLE_ERRORS = (DeltaError, OSError)
"""What the library raises for a table or a storage that cannot be used."""

LOG = "_delta_log"
_INFO = b'{"commitInfo"'

SCHEMES = (Scheme.FILE, Scheme.S3)

_OPTIONS: Mapping[Scheme, Mapping[str, str]] = {
    Scheme.S3: {"AWS_CONDITIONAL_PUT": "etag", "AWS_S3_ALLOW_UNSAFE_RENAME": "false"}
}
"""Of two writers exactly one creates an entry of the log. The library's other way, a rename, overwrites."""

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Nothing runs behind a commit: what failed there would look like a commit that failed."""


def alone(metadata: dict[str, object] | None = None, transactions: Sequence[Transaction] = ()) -> CommitProperties:
    """A commit that fails unless it writes the version after the one that was read."""
    return CommitProperties(
        custom_metadata=metadata or None, max_commit_retries=0, app_transactions=list(transactions) or None
    )


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The folder of a table. It travels to the tasks, so it holds settings only."""

    folder: Folder

    def table(self, version: int | None = None) -> DeltaTable | None:
        """A snapshot of the table, the newest one by default; None if there is no table. Raises `TABLE_ERRORS`."""
        try:
            return DeltaTable(str(self.folder), version=version, storage_options=self.options())
        except TableNotFoundError:
            return None

    def options(self) -> dict[str, str]:
        """The library's options for the storage. They hold secrets: for a call, never to be kept."""
        return {**client_settings(self.folder), **_OPTIONS.get(self.folder.scheme, {})}

    def commit_info(self, version: int) -> Mapping[str, Any] | None:
        """What a commit says of itself; None if it says nothing, or if the log does not keep it any more."""
        lines = (self.log().peek(entry_name(version)) or b"").splitlines()
        found = next((line for line in lines if line.startswith(_INFO)), None)
        return None if found is None else parsed(found, dict[str, Any])["commitInfo"]

    def log(self) -> Storage:
        return open_storage(self.folder / LOG)

    def log_folder(self) -> Path | None:
        """The folder of the log if it is on a disk, where nothing is durable by itself."""
        return self.folder.local() / LOG if self.folder.is_local else None


@contextmanager
def reached(place: TablePlace, uid: str) -> Generator[None]:
    """An error of the table or its storage ends the run: SINK_UNUSABLE."""
    try:
        yield
    except TABLE_ERRORS as error:
        raise unusable(error, place, uid) from None


def unusable(error: BaseException, place: TablePlace, uid: str) -> TidegateError:
    """The error of a table that cannot be used as it is."""
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected="a Delta table, or an empty place for one, that can be read and written",
        found=told(error),
        where=f"sink {uid!r}: {place.folder}",
        next_step="correct what the message names (the folder, its rights, credentials and endpoint of the storage, "
        "a damaged log); then start again: nothing is lost",
    )


def told(error: BaseException) -> str:
    """The library's own words, without secrets."""
    return shortened(SECRETS.hide(f"{type(error).__name__}: {error}"), DETAIL_AT_MOST)


def entry_name(version: int) -> str:
    """The name of a commit in the log."""
    return f"{version:020}.json"
