"""Checks the options of a Kafka source or sink without a broker.

A client without servers is made to check names and values. This module also refuses what the client accepts silently
although the effect is another one: options that the source or the sink sets itself, and a login that would not be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.core.errors import Code, TidegateError
from tidegate.core.spelling import did_you_mean
from tidegate.kafka.clients import Clients, as_text
from tidegate.kafka.option_names import NAMES


@dataclass(frozen=True, slots=True)
class Owned:
    """An option that a program must not set.

    `value`: what tidegate sets it to, None if that varies. `instead`: what to do.
    """

    name: str
    value: Any
    why: str
    instead: str = "take it out"

    def agrees(self, given: str) -> bool:
        """True if the program gives the same value as tidegate."""
        text = given.strip().lower()
        return self.value is not None and as_text(self.value).lower() in (text, _MEANS.get(text))


_MEANS: Mapping[str, str] = {"-1": "all", "1": "true", "t": "true", "0": "false", "f": "false"}
"""Other texts that librdkafka takes for acks and for a boolean."""

_SERVERS = tuple(
    Owned(name, None, "servers= says where the brokers are", "give them as servers=")
    for name in ("bootstrap.servers", "metadata.broker.list")
)
_POSITIONS = "the checkpoint holds the positions, so that they and the output are of one epoch"
_NO_GROUP = "no consumer group is joined"
_PACE = "tasks share a consumer, and one must not hold up the next"
# A fetch that waits at the end of one task's partition would hold up the first one of the next task. While much is
# fetched ahead, the client does not fetch for as long as the second one says; its default is a whole second.

OWNED_BY_SOURCE: tuple[Owned, ...] = (
    *_SERVERS,
    Owned("group.id", None, f"{_NO_GROUP}: {_POSITIONS}", "name the group for lag tools with group="),
    Owned("group.instance.id", None, _NO_GROUP),
    Owned("group.protocol", None, _NO_GROUP),
    Owned("enable.auto.commit", False, _POSITIONS, "take it out; group= tells lag tools how far the job is"),
    Owned("auto.commit.enable", False, _POSITIONS, "take it out; group= tells lag tools how far the job is"),
    Owned("auto.commit.interval.ms", None, _POSITIONS, "take it out; group= tells lag tools how far the job is"),
    Owned("enable.auto.offset.store", False, _POSITIONS),
    Owned(
        "isolation.level", "read_committed", "records of an aborted transaction are no rows", "take it out: it is so"
    ),
    Owned("auto.offset.reset", "error", "records that are gone are never skipped in silence", "use start= and lost="),
    Owned("enable.partition.eof", True, "the end of an epoch is found by it"),
    Owned("allow.auto.create.topics", False, "a topic that is missing is an error", "create the topic"),
    Owned("fetch.wait.max.ms", 10, _PACE, "take it out; max_rows= and max_bytes= limit an epoch"),
    Owned("fetch.queue.backoff.ms", 10, _PACE, "take it out; max_rows= and max_bytes= limit an epoch"),
    Owned("queued.max.messages.kbytes", 16 * 1024, _PACE, "take it out; max_rows= and max_bytes= limit an epoch"),
)

_EXACTLY_ONCE = "acks, idempotence and transactions are as the protocol needs them"
OWNED_BY_SINK: tuple[Owned, ...] = (
    *_SERVERS,
    Owned("acks", "all", _EXACTLY_ONCE),
    Owned("request.required.acks", "all", _EXACTLY_ONCE),
    Owned("enable.idempotence", True, _EXACTLY_ONCE),
    Owned("transactional.id", None, _EXACTLY_ONCE, "give transactional_id_prefix=, which stands in front of each id"),
    Owned("transaction.timeout.ms", None, _EXACTLY_ONCE, "give transaction_timeout=, in seconds"),
)


@dataclass(frozen=True, slots=True)
class End:
    """What differs between a source and a sink.

    `misfit`: the error code for a bad value; `mechanisms`: the possible logins.
    """

    owned: tuple[Owned, ...]
    misfit: Code
    mechanisms: frozenset[str]


def option_violations(clients: Clients, end: End, where: str) -> Iterator[TidegateError]:
    """An error for each invalid option. No broker is asked."""
    unknown = [name for name in sorted(clients.options) if not _is_known(name)]
    owned = {each.name: each for each in end.owned}
    for name in unknown:
        yield _violation(
            Code.OPTION_UNKNOWN,
            "options of librdkafka",
            f"options={{{name!r}: ...}}",
            where,
            did_you_mean(name, NAMES, "take it out: librdkafka lists its options in CONFIGURATION.md"),
        )
    for name, given in sorted(clients.options.items()):
        mine = owned.get(name)
        if mine is not None and not mine.agrees(given):
            has = "" if mine.value is None else f" = {as_text(mine.value)}"
            yield _violation(
                Code.OPTION_UNKNOWN, f"{name}{has}: {mine.why}", f"options={{{name!r}: ...}}", where, mine.instead
            )
    if unknown:
        return  # what the client would say of the rest depends on what was meant
    try:
        settings = {name: value for name, value in clients.settings().items() if name not in owned}
    except TidegateError as error:
        yield error
        return
    logins = list(_login_violations(settings, end.mechanisms))
    for expected, found, next_step in logins:
        yield _violation(end.misfit, expected, found, where, next_step)
    if not logins and _mechanism(settings) != "OAUTHBEARER":  # for which a client would ask for a token at once
        said = _refused(settings)
        if said is not None:
            yield _violation(end.misfit, "options that librdkafka takes", said, where, "mend the value, then start")


def _is_known(name: str) -> bool:
    """True if a client has an option of this name. The client itself is asked if the table does not have it."""
    if name in NAMES:
        return True
    try:
        AdminClient({**_SILENT, name: "1"})
    except (KafkaException, TypeError, ValueError):
        return False
    return True


def _refused(settings: Mapping[str, Any]) -> str | None:
    try:
        AdminClient({**settings, **_SILENT})
    except KafkaException as error:
        return str(error.args[0].str())
    return None


_SILENT: Mapping[str, Any] = {"log_level": 0}


def _mechanism(settings: Mapping[str, Any]) -> str | None:
    given = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
    return None if given is None else str(given).upper()


def _login_violations(settings: Mapping[str, Any], mechanisms: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """For each problem of the login: what was expected, what was found, what to do."""
    protocol = str(settings.get("security.protocol", "plaintext")).upper()
    if protocol not in _PROTOCOLS:
        yield (
            f"security.protocol one of {', '.join(_PROTOCOLS)}",
            repr(settings["security.protocol"]),
            did_you_mean(protocol, _PROTOCOLS, "mend the value, then start"),
        )
        return
    of_a_login = sorted(name for name in settings if name.startswith("sasl."))
    if "SASL" not in protocol and of_a_login:
        with_login = "SASL_SSL" if protocol == "SSL" else "SASL_SSL (by TLS) or SASL_PLAINTEXT"
        yield (
            f"security.protocol {with_login} beside {', '.join(of_a_login)}",
            f"{protocol}: no login would be sent",
            'add "security.protocol" to options=, as the listener of the brokers has it',
        )
    of_tls = sorted(name for name in settings if name.startswith("ssl."))
    if "SSL" not in protocol and of_tls:
        with_tls = "SASL_SSL" if "SASL" in protocol else "SSL or SASL_SSL"
        yield (
            f"security.protocol {with_tls} beside {', '.join(of_tls)}",
            f"{protocol}: the connection would not be encrypted",
            'add "security.protocol" to options=, as the listener of the brokers has it',
        )
    if "SASL" in protocol:
        yield from _mechanism_violations(settings, protocol, mechanisms)


def _mechanism_violations(
    settings: Mapping[str, Any], protocol: str, mechanisms: frozenset[str]
) -> Iterator[tuple[str, str, str]]:
    mechanism = _mechanism(settings)
    if mechanism not in mechanisms:
        yield (
            f"sasl.mechanism one of {', '.join(sorted(mechanisms))}",
            mechanism or f"none, beside security.protocol {protocol}",
            did_you_mean(mechanism or "", mechanisms, "let the user log in by one of these"),
        )
        return
    needed = _needed(str(mechanism), settings)
    missing = [name for name in needed if not settings.get(name)]
    if missing:
        yield (
            f"{', '.join(needed)} for sasl.mechanism {mechanism}",
            f"no {', no '.join(missing)}",
            f"add to options=: {', '.join(f'{name!r}: {_EXAMPLES[name]!r}' for name in missing)}",
        )


_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _needed(mechanism: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The options that a login by this mechanism needs.

    A token must come from an endpoint (OpenID Connect), because a Python callback cannot be sent to the tasks.
    """
    match mechanism:
        case "GSSAPI":
            return ()
        case "OAUTHBEARER" if str(settings.get("enable.sasl.oauthbearer.unsecure.jwt")).lower() == "true":
            return ()
        case "OAUTHBEARER" if settings.get("sasl.oauthbearer.metadata.authentication.type"):
            return ("sasl.oauthbearer.method",)
        case "OAUTHBEARER" if settings.get("sasl.oauthbearer.grant.type"):
            return ("sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url")
        case "OAUTHBEARER":
            return (
                "sasl.oauthbearer.method",
                "sasl.oauthbearer.client.id",
                "sasl.oauthbearer.client.secret",
                "sasl.oauthbearer.token.endpoint.url",
            )
        case _:
            return ("sasl.username", "sasl.password")


_EXAMPLES: Mapping[str, str] = {
    "sasl.username": "...",
    "sasl.password": "env:KAFKA_PASSWORD",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "...",
    "sasl.oauthbearer.client.secret": "env:KAFKA_CLIENT_SECRET",
    "sasl.oauthbearer.token.endpoint.url": "https://...",
}

LOGINS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"})
"""Every login of librdkafka; whether its build has GSSAPI, the client says."""


def owned_table(owned: tuple[Owned, ...]) -> str:
    """The options that a program must not set, as a Markdown table for the documentation."""
    rows = [
        f"| `{each.name}` | {'' if each.value is None else f'`{as_text(each.value)}`'} | {each.why} | {each.instead} |"
        for each in owned
    ]
    return "\n".join(["| option | is always | why | what to do |", "|---|---|---|---|", *rows])


def _violation(code: Code, expected: str, found: str, where: str, next_step: str) -> TidegateError:
    return TidegateError(code, expected=expected, found=found, where=where, next_step=next_step)
