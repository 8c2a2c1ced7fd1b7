"""A broker with users that can also be reached by TLS, with a certificate of the client's own, and without a login."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.ports import free_port
from tidegate.testing.kafka.properties import server_properties

_EXTENSIONS = "subjectAltName=IP:127.0.0.1"


@dataclass(frozen=True, slots=True)
class Doors:
    """`broker.servers` is where users log in; `tls` the same over TLS; whoever comes to `open` may do everything."""

    broker: Broker
    tls: str
    open: str
    folder: Path

    def options(self, user: str) -> dict[str, str]:
        """What a client needs to log in over TLS."""
        return {
            **self.broker.options(user),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "ssl.certificate.location": str(self.folder / "client.pem"),
            "ssl.key.location": str(self.folder / "client.key"),
        }


@contextmanager
def start_with_doors(folder: Path, users: Mapping[str, str]) -> Iterator[Doors]:
    """Start a broker with these users and three listeners; it is stopped at the end."""
    certify(folder)
    tls, plain = free_port(set()), free_port(set())
    added = _listeners(folder, tls, plain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tidegate.testing.kafka.broker.server_properties", lambda *given: _with(server_properties(*given), added)
        )
        with Broker.start(folder / "broker", users=users) as broker:
            yield Doors(broker, f"127.0.0.1:{tls}", f"127.0.0.1:{plain}", folder)


def certify(folder: Path) -> None:
    """`ca.pem`, and signed by it `server` and `client`, each with `.key` and `.pem`."""
    _openssl(
        folder,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=ca -days 2 -keyout ca.key -out ca.pem",
    )
    (folder / "extensions").write_text(_EXTENSIONS)
    for name in ("server", "client"):
        _openssl(
            folder,
            f"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name}"
            f" -keyout {name}.key -out {name}.csr",
        )
        _openssl(
            folder,
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
            f" -extfile extensions -out {name}.pem",
        )
    (folder / "keystore.pem").write_text((folder / "server.key").read_text() + (folder / "server.pem").read_text())


def _openssl(folder: Path, command: str) -> None:
    subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)


def _listeners(folder: Path, tls: int, plain: int) -> dict[str, Any]:
    at = f"TLS://127.0.0.1:{tls},OPEN://127.0.0.1:{plain}"
    return {
        "listeners": at,
        "advertised.listeners": at,
        "listener.security.protocol.map": "TLS:SASL_SSL,OPEN:PLAINTEXT",
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": folder / "keystore.pem",
        "listener.name.tls.ssl.truststore.type": "PEM",
        "listener.name.tls.ssl.truststore.location": folder / "ca.pem",
        "listener.name.tls.ssl.client.auth": "required",
    }


def _with(properties: str, added: Mapping[str, Any]) -> str:
    """The properties with these; lists are made longer, and the users of the one listener are those of the other."""
    given = dict(line.split("=", 1) for line in properties.splitlines())
    login = given["listener.name.clients.plain.sasl.jaas.config"]
    more = {name: f"{given[name]},{value}" if name in given else value for name, value in added.items()}
    all_of_it = {**given, "listener.name.tls.plain.sasl.jaas.config": login, **more}
    return "".join(f"{name}={value}\n" for name, value in all_of_it.items())
