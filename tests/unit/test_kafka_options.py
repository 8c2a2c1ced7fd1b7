"""Options of a Kafka source or sink that do not fit, told before anything is asked of a broker."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path

import confluent_kafka
import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.clients import Clients
from tidegate.kafka.option_names import NAMES
from tidegate.kafka.options import LOGINS, OWNED_BY_SINK, OWNED_BY_SOURCE, End, Owned, option_violations
from tidegate.kafka.wire_options import MECHANISMS

SOURCE = End(OWNED_BY_SOURCE, Code.SOURCE_OPTION, LOGINS)
SINK = End(OWNED_BY_SINK, Code.OPTION_UNKNOWN, MECHANISMS)
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}


def violations(options: Mapping[str, str], end: End = SOURCE) -> list[TidegateError]:
    return list(option_violations(Clients("localhost:1", options), end, "job j, source s"))


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("sasl.usernme", "sasl.username"),
        ("isolation.levl", "isolation.level"),
        ("fetch.min.byte", "fetch.min.bytes"),
        ("securtiy.protocol", "security.protocol"),
        ("Client.Id", "client.id"),
    ],
)
@pytest.mark.parametrize("end", [SOURCE, SINK], ids=["source", "sink"])
def test_an_option_with_a_typo_is_named_with_what_was_meant(wrong: str, meant: str, end: End) -> None:
    (error,) = violations({wrong: "1"}, end)
    assert error.code == "TG-OPTION-UNKNOWN"
    assert repr(wrong) in error.found
    assert error.where == "job j, source s"
    assert error.next_step == f"did you mean {meant}?"


def test_an_option_that_is_like_no_other_is_refused_without_a_guess() -> None:
    (error,) = violations({"wholly.other": "1"})
    assert "did you mean" not in error.next_step


@pytest.mark.parametrize("owned", OWNED_BY_SOURCE, ids=lambda each: each.name)
def test_an_option_that_the_source_owns_may_not_say_something_else(owned: Owned) -> None:
    name = owned.name
    (error,) = violations({name: "7"})
    assert error.code == "TG-OPTION-UNKNOWN"
    assert name in error.expected
    assert repr(name) in error.found


def test_the_keyword_that_says_it_is_named() -> None:
    said = {name: violations({name: "x"})[0].next_step for name in ("group.id", "auto.offset.reset")}
    assert "group=" in said["group.id"]
    assert "start=" in said["auto.offset.reset"]
    (sink,) = violations({"transaction.timeout.ms": "1000"}, SINK)
    assert "transaction_timeout=" in sink.next_step


def test_who_says_what_is_so_anyway_is_let_be() -> None:
    assert violations({"isolation.level": "read_committed", "enable.auto.commit": "False"}) == []
    assert violations({"acks": "all", "enable.idempotence": "true"}, SINK) == []
    assert violations({"linger.ms": "5", "client.id": "mine"}) == []


@pytest.mark.parametrize("options", [{"acks": "-1"}, {"acks": "ALL"}, {"enable.idempotence": "1"}])
def test_an_owned_option_may_say_the_same_in_every_way_that_the_client_reads(options: Mapping[str, str]) -> None:
    assert violations(options, SINK) == []


@pytest.mark.parametrize(
    ("options", "expected", "to_do"),
    [
        ({"sasl.username": "u", "sasl.password": "p"}, "security.protocol SASL_SSL", "security.protocol"),
        ({"security.protocol": "PLAIN"}, "security.protocol one of", "did you mean"),
        ({"ssl.ca.location": "ca.pem"}, "security.protocol SSL", "security.protocol"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism one of", "log in by one"),
        ({**LOGIN, "sasl.mechanism": "SCRAM-SHA-265"}, "sasl.mechanism one of", "did you mean SCRAM-SHA-256?"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.username, sasl.password", "env:"),
        ({k: v for k, v in LOGIN.items() if k != "sasl.password"}, "sasl.password", "'sasl.password'"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.oauthbearer.method",
            "'sasl.oauthbearer.method': 'oidc'",
        ),
        ({"fetch.min.bytes": "many"}, "options that librdkafka takes", "mend the value"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/there/is/none"}, "librdkafka takes", "mend the value"),
    ],
)
def test_a_login_that_would_not_be_sent_is_refused_with_what_solves_it(
    options: dict[str, str], expected: str, to_do: str
) -> None:
    (error,) = violations(options)
    assert error.code == "TG-SOURCE-OPTION"
    assert expected in error.expected
    assert to_do in error.next_step


def test_whole_logins_are_taken_and_the_sink_has_fewer() -> None:
    token = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "hush",
        "sasl.oauthbearer.token.endpoint.url": "https://localhost:1",
    }
    assert violations(LOGIN) == [] == violations(LOGIN, SINK)
    assert violations(token) == []
    (error,) = violations(token, SINK)
    assert "OAUTHBEARER" in error.found
    assert "SCRAM-SHA-512" in error.expected


def test_no_violation_shows_a_secret() -> None:
    told = violations({**LOGIN, "sasl.password": "hush-a1b2", "sasl.mechanism": "PLANE", "acks": "hush-a1b2"}, SINK)
    assert told
    assert "hush-a1b2" not in "\n".join(map(str, told))


def test_the_table_of_names_is_that_of_the_installed_client(tmp_path: Path) -> None:
    (library,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
    shown = tmp_path / "properties"
    show(library, shown)
    listed = set(re.findall(r"^([a-z][\w.]+) +\| +[CP*] ", shown.read_text(), re.MULTILINE))
    assert listed >= NAMES
    left_out = {name for name in listed - NAMES if not name.endswith("_cb") and not re.fullmatch(r"ssl_\w+", name)}
    assert left_out == {"default_topic_conf", "interceptors", "internal.termination.signal", "msg_order_cmp", "opaque"}


def show(library: Path, target: Path) -> None:
    """Have librdkafka write its properties into a file."""
    c, client = ctypes.CDLL(None), ctypes.CDLL(str(library))
    c.fopen.restype = ctypes.c_void_p
    c.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    c.fclose.argtypes = client.rd_kafka_conf_properties_show.argtypes = [ctypes.c_void_p]
    file = c.fopen(str(target).encode(), b"w")
    client.rd_kafka_conf_properties_show(file)
    c.fclose(file)
