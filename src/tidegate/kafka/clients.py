"""How clients connect to a Kafka cluster: servers and options.

Secrets are read when a client opens, and never shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tidegate.option_values import hide_secrets_of, resolved


@dataclass(frozen=True)
class Clients:
    """Servers (`host:port,...`) and options with librdkafka's names (`security.protocol`, `sasl.password`, ...).

    A value `env:NAME` is read from the environment, and `file:PATH` from a file, by the process that opens a client. So
    the secret is in no other process and in no file. Option values are never shown.
    """

    def __post_init__(self) -> None:
        hide_secrets_of(self.options)

    servers: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def settings(self, **extra: Any) -> dict[str, Any]:
        """The settings for a new confluent-kafka client. `extra` overrides them; `_` in its names stands for `.`.

        Raises OPTION_UNREADABLE if an environment variable or a file does not exist.
        """
        given = {name: resolved(name, value) for name, value in self.options.items()}
        own = {name.replace("_", "."): value for name, value in extra.items()}
        return {**_DEFAULTS, "bootstrap.servers": self.servers, **given, **own}

    def __repr__(self) -> str:
        return f"Clients({self.servers!r}, options: {', '.join(sorted(self.options)) or 'none'})"


class Refusals:
    """Collects the errors of a refused client, such as a wrong login or a certificate that the brokers do not accept.

    A client reports these only to its callback; its calls just run into their time limits. `note` is the `error_cb` of
    the client, which is called during a poll.
    """

    def __init__(self) -> None:
        self._last: KafkaException | None = None

    def note(self, error: KafkaError) -> None:
        if error.name() in ("_AUTHENTICATION", "_SSL"):
            self._last = KafkaException(error)

    def take(self) -> KafkaException | None:
        """The newest error since the last call; None if there is none."""
        last, self._last = self._last, None
        return last


_DEFAULTS: Mapping[str, Any] = {
    # The client also waits this long before a connection that it has not had before. With its own default of 100 ms a
    # producer opens in 60 ms, with this one in 20. While a broker is away, the waits double up to 10 s in both cases.
    "reconnect.backoff.ms": 1,
    "log.connection.close": False,
    # A broker that is away is met in the calls that need it; the client's own log would repeat it for ever.
    "log_level": 2,
}


def as_text(value: str | int | float | bool) -> str:
    """The value of an option as text in librdkafka's form."""
    return str(value).lower() if isinstance(value, bool) else str(value)
