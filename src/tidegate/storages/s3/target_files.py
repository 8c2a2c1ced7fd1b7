"""`TargetFiles` in a bucket of S3: a staged object is published by a copy that the server makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.refusals import name_taken
from tidegate.storages.s3.bucket import WRITER, FoundObject, S3Bucket
from tidegate.storages.s3.copies import SentCopies
from tidegate.storages.s3.errors import S3_ERRORS, is_refused_copy
from tidegate.storages.s3.names import ObjectKeys
from tidegate.storages.s3.uploads import Upload, abort, uploads_below
from tidegate.storages.schemes import Folder
from tidegate.storages.target_files import FileProof, Fit, NameLimits, Published

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from typing_extensions import Buffer

DIGEST: Final = "tidegate-sha256"
"""The name of the digest in the metadata of a published object."""

KEY_BYTES_AT_MOST = 1024

FILE_BYTES_AT_MOST = 1 << 30
"""One request copies at most 5 GB, and answers when the copy is whole: an object of this size takes seconds.

A copy in parts is not used: its completion, sent by a driver that stood still, would publish an object again that a
reader has compacted. A copy in one request finds the staged object gone.
"""

_DOING = "publish a staged object"


class S3TargetFiles:
    """The objects below a folder.

    A staged object is an ordinary one, so it can be read until it is removed. Its metadata has the token of its writer,
    and a published object has it too, with the digest of the content. No answer to a copy is trusted: the published
    object is looked at.
    """

    keeps_staged = True
    file_bytes_at_most = FILE_BYTES_AT_MOST
    open_at_most = 16

    def __init__(self, folder: Folder, bucket: S3Bucket | None = None) -> None:
        self._keys = ObjectKeys(folder)
        self._bucket = bucket or S3Bucket(folder.authority)
        self.limits = NameLimits(len(self._keys.key("").encode()), KEY_BYTES_AT_MOST)

    def where(self, name: str = "") -> str:
        return self._keys.where(name)

    def create(self, name: str, token: str) -> NewObject:
        return NewObject(Upload(self._bucket, self._keys.key(name), "write a staged object", token), self.where(name))

    def fit(self, name: str, proof: FileProof) -> Fit:
        return _fit(self._bucket.look(self._keys.key(name), "look at an object"), proof)

    def publish(self, name: str, to: str, proof: FileProof) -> Published:
        is_copied = self._copied(self._keys.key(name), self._keys.key(to), proof)
        match self.fit(to, proof):
            case Fit.SAME:
                return Published.VISIBLE
            case Fit.OTHER if not is_copied:
                return Published.TAKEN
            case Fit.ABSENT if not is_copied:
                return Published.UNSTAGED
            case found:
                raise TidegateError(
                    Code.STORAGE_UNUSABLE,
                    expected=f"to {_DOING}: {proof.size_bytes} bytes after a copy",
                    found=found.value,
                    where=self.where(to),
                    next_step="start again; if it comes again, use a store whose copies can be relied on",
                )

    def unfinished(self, folder: str) -> Sequence[str]:
        """Uploads in parts, each by the name of its file and its id: no list of objects shows them."""
        found = uploads_below(self._bucket, self._keys.prefix(folder), "list uploads")
        return [f"{self._keys.name(key)} {upload}" for key, upload in found]

    def give_up(self, unfinished: Sequence[str]) -> None:
        for name, _, upload in (each.rpartition(" ") for each in unfinished):
            abort(self._bucket, self._keys.key(name), "remove parts of an upload", upload)

    def proves_publication(self, folder: str) -> bool:
        return False

    def settle(self, folders: Iterable[str]) -> None:
        """What can be seen is durable."""

    def _copied(self, key: str, to: str, proof: FileProof) -> bool:
        """False if there is no staged object. Of two copies to one key both have the same content."""
        where, in_doubt = self._bucket.where(to), self._bucket.connected.copies_in_doubt

        def send(client: S3Client) -> bool:
            try:
                client.copy_object(
                    Bucket=self._bucket.name,
                    Key=to,
                    CopySource={"Bucket": self._bucket.name, "Key": key},
                    MetadataDirective="REPLACE",
                    Metadata={WRITER: proof.token, DIGEST: proof.sha256},
                )
            except S3_ERRORS as error:
                # Servers have several codes for a source that is absent.
                if is_refused_copy(error) and self._bucket.look(key, _DOING) is None:
                    return False
                raise
            return True

        def has_landed() -> bool:
            return _fit(self._bucket.look(to, _DOING), proof) is Fit.SAME

        copies = SentCopies(where, proof.size_bytes, send, has_landed, is_in_doubt=where in in_doubt)
        try:
            is_copied = self._bucket.ask(to, _DOING, copies)
        finally:
            if copies.is_in_doubt:
                in_doubt.add(where)
        in_doubt.discard(where)
        return is_copied


class NewObject:
    """A staged object that is written. It appears when it is whole."""

    def __init__(self, upload: Upload, where: str) -> None:
        self._upload = upload
        self._where = where

    def write(self, data: Buffer, /) -> int:
        return self._upload.write(data)

    def close(self) -> None:
        if not self._upload.end():
            raise name_taken(self._where)

    def abandon(self) -> None:
        with suppress(TidegateError):  # it is hidden, and must not hide the failure that left it
            self._upload.abort()


def _fit(found: FoundObject | None, proof: FileProof) -> Fit:
    if found is None:
        return Fit.ABSENT
    return Fit.SAME if (found.size_bytes, found.writer) == (proof.size_bytes, proof.token) else Fit.OTHER
