"""The one place that opens an ingest log, by the scheme of its folder."""

from __future__ import annotations

from tidegate.checkpoints.ingest_log import IngestLog
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.storages.schemes import Folder


def open_ingest_log(folder: Folder) -> IngestLog:
    """Open the log in `folder` for appending, or create one. Only with the job's lease held.

    Raises DRIVER_ALIVE if another writer has it open on this disk, RECORD_CORRUPT if it is altered, and errors of the
    storage.
    """
    return SegmentLog(folder.local()) if folder.is_local else PieceLog(folder)
