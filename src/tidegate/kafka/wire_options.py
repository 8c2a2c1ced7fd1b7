"""Converts options of librdkafka into those of the Python client that sends protocol requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.kafka.clients import Clients

_OPTIONS: Mapping[str, str] = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
}
"""librdkafka's names of what it takes to connect, and those of the client that speaks the protocol here."""
CONNECTS: frozenset[str] = frozenset({*_OPTIONS, "ssl.endpoint.identification.algorithm"})
"""The options that this client takes; others that have to do with a login or TLS would not reach it."""
MECHANISMS: frozenset[str] = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
"""The logins that librdkafka and this client have in common."""


def wire_settings(clients: Clients) -> dict[str, Any]:
    """The settings of that client, from the options of librdkafka."""
    given = clients.settings()
    settings: dict[str, Any] = {ours: given[name] for name, ours in _OPTIONS.items() if name in given}
    settings["bootstrap_servers"] = str(settings["bootstrap_servers"]).split(",")
    if "security_protocol" in settings:
        settings["security_protocol"] = str(settings["security_protocol"]).upper()
    if given.get("ssl.endpoint.identification.algorithm") == "none":
        settings["ssl_check_hostname"] = False
    return settings
