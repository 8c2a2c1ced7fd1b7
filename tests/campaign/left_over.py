"""What a job has left on HDFS or S3 that nothing needs: files under a hidden name, staged files, open uploads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import boto3
import hdfs_native

from tidegate.storages.schemes import Folder, Scheme

_OPEN_UPLOADS = "open uploads"
_NAMES_SHOWN = 4
_KINDS = {"temporary files": re.compile(r"(^|/)\.[^/]*\.tmp$"), "staged files": re.compile(r"\.staged$")}


def left_over(folder: Folder) -> dict[str, list[str]]:
    """The names of each kind that stand anywhere below `folder`."""
    names = list(_on_s3(folder) if folder.scheme is Scheme.S3 else _on_hdfs(folder))
    found = {kind: [name for name in names if pattern.search(name)] for kind, pattern in _KINDS.items()}
    if folder.scheme is Scheme.S3:
        uploads = boto3.client("s3").list_multipart_uploads(Bucket=folder.authority, Prefix=folder.path.lstrip("/"))
        found[_OPEN_UPLOADS] = [each.get("Key", "") for each in uploads.get("Uploads", ())]
    return found


def left_over_words(found: Mapping[str, Sequence[str]]) -> str:
    """How many of each kind, with the first names."""
    return ", ".join(
        f"{len(names)} {kind}" + (f" ({', '.join(names[:_NAMES_SHOWN])})" if names else "")
        for kind, names in found.items()
    )


def _on_s3(folder: Folder) -> Iterator[str]:
    pages = boto3.client("s3").get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=folder.authority, Prefix=folder.path.lstrip("/")):
        yield from (each.get("Key", "") for each in page.get("Contents", ()))


def _on_hdfs(folder: Folder) -> Iterator[str]:
    for status in hdfs_native.Client(f"hdfs://{folder.authority}").list_status(folder.path, recursive=True):
        yield status.path
