"""How clients connect to a Kafka cluster: servers and options.

Secrets are read when a client opens, and never shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS, is_secret


@dataclass(frozen=True)
class Clients:
    """Servers (`host:port,...`) and options with librdkafka's names (`security.protocol`, `sasl.password`, ...).

    A value `env:NAME` is read from the environment, and `file:PATH` from a file, by the process that opens a client. So
    the secret is in no other process and in no file. Option values are never shown.
    """

    def __post_init__(self) -> None:
        # An error may quote what is written in the program before any client was opened with it.
        for name, value in self.options.items():
            if is_secret(name) and not _is_kept_elsewhere(value):
                SECRETS.add(value)

    servers: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def settings(self, **extra: Any) -> dict[str, Any]:
        """The settings for a new confluent-kafka client. `extra` overrides them; `_` in its names stands for `.`.

        Raises OPTION_UNREADABLE if an environment variable or a file does not exist.
        """
        given = {name: _resolved(name, value) for name, value in self.options.items()}
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


def _resolved(name: str, value: str) -> str:
    kind, _, rest = value.partition(":")
    if not _is_kept_elsewhere(value):
        return value
    read = _PLACES[kind](name, rest)
    SECRETS.add(read)
    return read


def _is_kept_elsewhere(value: str) -> bool:
    kind, colon, _ = value.partition(":")
    return bool(colon) and kind in _PLACES


def _from_environment(name: str, variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise _unreadable(name, f"environment variable {variable}", "it is not set")
    return value


def _from_file(name: str, path: str) -> str:
    try:
        return Path(path).read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise _unreadable(name, f"file {path}", error.strerror or type(error).__name__) from None


_PLACES: Mapping[str, Callable[[str, str], str]] = {"env": _from_environment, "file": _from_file}


def _unreadable(name: str, place: str, found: str) -> TidegateError:
    return TidegateError(
        Code.OPTION_UNREADABLE,
        expected=f"the value of {name} in {place}",
        found=found,
        where=f"options={{{name!r}: ...}}, read by process {os.getpid()}",
        next_step="set it for the driver and for every worker (it is read where a client is opened), then start again",
    )
