"""What a job has left on HDFS or S3 that nothing needs: files under a hidden name, staged files, open uploads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import boto3
import hdfs_native

from tidegate.storages.schemes import Folder, Scheme

_OPEN_UPLOADS = "open uploads"
_KINDS = {"temporary files": re.compile(r"(^|/)\.[^/]*\.tmp$"), "staged files": re.compile(r"\.staged$")}


def left_over(folder: Folder) -> Counter[str]:
    """How many of each kind stand anywhere below `folder`."""
    names = _on_s3(folder) if folder.scheme is Scheme.S3 else _on_hdfs(folder)
    found = Counter(dict.fromkeys(_KINDS, 0))
    found.update(kind for name in names for kind, pattern in _KINDS.items() if pattern.search(name))
    if folder.scheme is Scheme.S3:
        uploads = boto3.client("s3").list_multipart_uploads(Bucket=folder.authority, Prefix=folder.path.lstrip("/"))
        found[_OPEN_UPLOADS] = len(uploads.get("Uploads", ()))
    return found


def _on_s3(folder: Folder) -> Iterator[str]:
    pages = boto3.client("s3").get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=folder.authority, Prefix=folder.path.lstrip("/")):
        yield from (each.get("Key", "") for each in page.get("Contents", ()))


def _on_hdfs(folder: Folder) -> Iterator[str]:
    for status in hdfs_native.Client(f"hdfs://{folder.authority}").list_status(folder.path, recursive=True):
        yield status.path
