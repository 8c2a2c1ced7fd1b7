"""The records that one run has written last, so that it need not read them again."""

from __future__ import annotations

import threading
from collections import OrderedDict

_KEPT = 64
"""An epoch writes four. An older record is read."""


class WrittenRecords:
    """Names and contents. Threads share one."""

    def __init__(self) -> None:
        self._records: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def content(self, name: str) -> bytes | None:
        """What this run has written under the name; None if that is unknown."""
        return self._records.get(name)

    def keep(self, name: str, data: bytes) -> None:
        """The record is durable."""
        with self._lock:
            self._records[name] = data
            self._records.move_to_end(name)
            while len(self._records) > _KEPT:
                self._records.popitem(last=False)

    def forget(self, name: str) -> None:
        """The record is removed, or replaced."""
        with self._lock:
            self._records.pop(name, None)
