"""Writes rows that were taken from a source and must not be lost: retries while the disk is full."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidegate.core.errors import Code, TidegateError
from tidegate.disk.durable import is_of_a_failed_sync

_LOG = logging.getLogger("tidegate")
_SPACE_SECONDS = 1.0
TOLD_OF_TRIES = 12
"""Of a row of failures, the first is told and then one in so many."""


def keep(write: Callable[[], object], source: str, what: str, closing: threading.Event) -> None:
    """Call `write` until the disk has space, or until `closing` is set, so that a full disk does not delay the job's
    end.

    `source` and `what`: for log messages, the source and what is written ("3 lines"). Raises what `write` raises for
    any reason but a full disk.
    """
    tries = 0
    while True:
        try:
            write()
            return
        except TidegateError as error:
            if error.catalogue_entry is not Code.STORAGE_FULL or is_of_a_failed_sync(error):
                raise
            if closing.is_set():
                _LOG.warning("%s: %s that were read are not kept: %s", source, what, error)
                raise
            if tries % TOLD_OF_TRIES == 0:
                _LOG.warning("%s: no space to keep %s; nothing more is read (%s)", source, what, error)
        tries += 1
        closing.wait(_SPACE_SECONDS)
