"""Puts on HDFS by way of a proxy that breaks the connection at every third rename, while other threads want to run.

    python -m tests.storages.broken_connections URI PORT COUNT

Prints the number of puts. A process whose threads wait for each other prints nothing.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from tests.support.proxy import Proxy
from tidegate.storages.hdfs.storage import HdfsStorage
from tidegate.storages.schemes import Folder

_WRITERS = 3


def main() -> None:
    path, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    is_over = threading.Event()
    threading.Thread(target=_be_busy, args=(is_over,), daemon=True).start()
    with Proxy(port) as proxy, ThreadPoolExecutor(_WRITERS) as writers:
        storage = HdfsStorage(Folder.of(f"hdfs://127.0.0.1:{proxy.port}{path}"))

        def put(number: int) -> bool:
            if number % 3 == 0:
                proxy.lose_answer(b"rename2")
            return storage.put_if_absent(f"decided/{number}", b"content")

        print(sum(writers.map(put, range(count))))
    is_over.set()


def _be_busy(is_over: threading.Event) -> None:
    """Hold Python's lock as often as one can."""
    while not is_over.is_set():
        sum(range(1000))


if __name__ == "__main__":
    main()
