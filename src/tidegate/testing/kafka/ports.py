"""Finds free ports on loopback."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

from tidegate.core.errors import Code, TidegateError

_RANGE = (20_000, 32_000)
"""Below the ports that systems give to outgoing connections: such a one could take a broker's while it restarts."""
_TRIES = 200


def free_port(taken: Collection[int]) -> int:
    """A free port that is not in `taken`: no process listens there."""
    for _ in range(_TRIES):
        port = random.randrange(*_RANGE)
        if port not in taken and is_free(port):
            return port
    raise _taken(f"{_TRIES} ports between {_RANGE[0]} and {_RANGE[1]} are all in use", "free some of them")


def require_free(port: int) -> None:
    """Raise if a process listens on this port."""
    if not is_free(port):
        raise _taken(f"127.0.0.1:{port} is in use", "end what listens there, or name another port (0: any free one)")


def is_free(port: int) -> bool:
    """True if a server could listen on this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _taken(found: str, next_step: str) -> TidegateError:
    return TidegateError(
        Code.BROKER_REFUSED, expected="a free port for the broker", found=found, where="127.0.0.1", next_step=next_step
    )
