"""Asks the listener at a broker's address whether it uses TLS and which logins it accepts, after a client was refused.

The client reports only that its connection was closed. A listener with another security protocol closes it too. So this
module tries a TLS handshake, and the request SaslHandshake (KIP-43), which needs no login.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SECONDS = 2.0
_SASL_HANDSHAKE, _VERSION = 17, 1
_ILLEGAL_SASL_STATE = 34
_ANSWER_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class BrokerListener:
    """What a listener supports. `mechanisms`: the logins that it accepts; empty: it has no logins; None: it did not
    say.

    `wants_certificate`: True if it has refused a client that has no certificate.
    """

    server: str
    tls: bool
    mechanisms: tuple[str, ...] | None = None
    wants_certificate: bool = False


def listener_at(servers: str) -> BrokerListener | None:
    """What the first of these servers that answers supports; None if none answers. Takes a few seconds at most."""
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not port.isdecimal():
            continue
        place = (host.strip("[]"), int(port))
        try:
            return _over_tls(server.strip(), place) or _over_nothing(server.strip(), place)
        except OSError:
            continue
    return None


def hint(settings: Mapping[str, Any], listener: BrokerListener) -> str | None:
    """What to change in a client's settings so that the listener accepts it; None if the settings fit."""
    protocol = str(settings.get("security.protocol", "plaintext")).upper()
    tls, login = "SSL" in protocol, "SASL" in protocol
    wants_login = bool(listener.mechanisms) or (listener.mechanisms is None and login)
    encrypted = "SSL" if listener.tls else "PLAINTEXT"
    right = f"SASL_{encrypted}" if wants_login else encrypted
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
    if listener.tls and not tls:
        return f"{listener.server} speaks TLS: set security.protocol to {right}, and ssl.ca.location"
    if tls and not listener.tls:
        return (
            f"{listener.server} speaks no TLS: set security.protocol to {right}, or give the port of its TLS listener"
        )
    if listener.wants_certificate and not settings.get("ssl.certificate.location"):
        return f"{listener.server} wants a certificate of the client: ssl.certificate.location and ssl.key.location"
    if listener.mechanisms and not login:
        offered = ", ".join(listener.mechanisms)
        return (
            f"{listener.server} wants a login by {offered}: set security.protocol to {right}, sasl.mechanism,"
            ' sasl.username and "sasl.password": "env:NAME"'
        )
    if listener.mechanisms == () and login:
        return f"{listener.server} takes no login: set security.protocol to {right}, or give the port that takes one"
    if listener.mechanisms and str(mechanism).upper() not in listener.mechanisms:
        return f"{listener.server} takes logins by {', '.join(listener.mechanisms)}: set sasl.mechanism to one of them"
    return None


def _over_tls(server: str, place: tuple[str, int]) -> BrokerListener | None:
    """Ask over TLS; None if the server does not use TLS.

    No secret is sent, so the server's certificate need not be trusted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(place, _SECONDS) as connection:
        try:
            secured = context.wrap_socket(connection)
        except (OSError, ValueError):
            return None
        with secured:
            try:
                return BrokerListener(server, tls=True, mechanisms=_mechanisms(secured))
            except ssl.SSLError as error:
                return BrokerListener(server, tls=True, wants_certificate="CERTIFICATE" in (error.reason or ""))


def _over_nothing(server: str, place: tuple[str, int]) -> BrokerListener:
    with socket.create_connection(place, _SECONDS) as connection:
        return BrokerListener(server, tls=False, mechanisms=_mechanisms(connection))


def _mechanisms(connection: socket.socket) -> tuple[str, ...] | None:
    """The logins that a listener accepts: it lists them when it refuses a login by a mechanism that does not exist."""
    name = b"tidegate"
    header = struct.pack(">hhih", _SASL_HANDSHAKE, _VERSION, 1, len(name)) + name
    body = struct.pack(">h", 1) + b"?"
    connection.sendall(struct.pack(">i", len(header + body)) + header + body)
    try:
        return _read(connection)
    except ssl.SSLError:
        raise
    except (OSError, struct.error):
        return None


def _read(connection: socket.socket) -> tuple[str, ...] | None:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    if not 10 <= size <= _ANSWER_BYTES:
        return None
    answer = _exactly(connection, size)
    _, error, count = struct.unpack_from(">ihi", answer)
    if error == _ILLEGAL_SASL_STATE:
        return ()
    names: list[str] = []
    at = struct.calcsize(">ihi")
    for _ in range(min(count, _ANSWER_BYTES)):
        (length,) = struct.unpack_from(">h", answer, at)
        names.append(answer[at + 2 : at + 2 + length].decode("ascii", "replace"))
        at += 2 + length
    return tuple(sorted(names))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError("closed")
        data += more
    return data
