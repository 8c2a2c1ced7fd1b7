"""An application of starlette's on a real server and a free port of loopback, for tests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

_SECONDS = 30.0
_LOOK_SECONDS = 0.01


@contextmanager
def served(application: ASGIApp) -> Iterator[int]:
    """Serve the application inside the block; its port."""
    server = uvicorn.Server(
        uvicorn.Config(application, log_level="warning", lifespan="off", timeout_graceful_shutdown=5)
    )
    with socket.create_server(("127.0.0.1", 0)) as bound:
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        try:
            end = time.monotonic() + _SECONDS
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < end
                time.sleep(_LOOK_SECONDS)
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(_SECONDS)
