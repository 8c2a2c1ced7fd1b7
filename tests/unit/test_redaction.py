"""No text shows a secret: neither one that is known, nor one that its name or its form gives away."""

from __future__ import annotations

import json
import time
from urllib.parse import quote

import pytest

from tidegate.core.redaction import HIDDEN, Secrets, is_secret, may_be_secret
from tidegate.kafka.clients import Clients

SECRET = "Tr0ub4dor&3"


@pytest.mark.parametrize(
    "text",
    [
        "sasl.password=Tr0ub4dor&3x",
        "sasl_plain_password='Tr0ub4dor&3'",
        "{'sasl.password': 'Tr0ub4dor&3', 'acks': 'all'}",
        "{'sasl.password': b'Tr0ub4dor&3'}",
        '{"password": "Tr0ub4dor&3"}',
        r'"{\"password\": \"Tr0ub4dor&3\"}"',
        'password="Tr0ub4dor&3',  # a text that was cut off inside
        'required username="u" password="Tr0ub4dor&3";',
        "PGPASSWORD=Tr0ub4dor&3 psql",
        "password: Tr0ub4dor&3",
        "mysql --password Tr0ub4dor&3 -h db",
        "postgresql://user:Tr0ub4dor&3@db/words",
        "no route to postgresql://user:p@ss/Tr0ub4dor&3@db:5432/words?x=1",
        "Authorization: Bearer Tr0ub4dor.3~Tr0ub4dor&3",
        "ssl.key.pem=-----BEGIN PRIVATE KEY-----\nTr0ub4dor&3\n-----END PRIVATE KEY-----",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\\nTr0ub4dor&3",
        "aws_secret_access_key = Tr0ub4dor&3",
    ],
)
def test_a_secret_is_told_by_its_name_or_its_form(text: str):
    shown = Secrets().hide(text)
    assert "ub4dor" not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize(
    "text",
    [
        "sink table: epoch 17 is decided, 120 rows",
        "see http://localhost:8080/path@home",
        "sasl.password=env:KAFKA_PASSWORD",
        "the value of sasl.password in environment variable KAFKA_PASSWORD",
        "aws_access_key_id=AKIA",
        "ssl.key.location=/etc/key.pem",
        "key=word, value=sea",
        "in /srv/somebody",
    ],
)
def test_what_is_no_secret_stays(text: str):
    if "http" in text:  # a password may hold any sign, so what looks like one goes: rather too much than too little
        assert Secrets().hide(text).startswith("see http://localhost:")
    else:
        assert Secrets().hide(text) == text


def test_a_known_secret_is_hidden_in_every_form_it_takes():
    secrets = Secrets()
    value = "pa\"ss'wo\\rd über/alles"
    secrets.add(value)
    for form in (value, repr(value), json.dumps(value), quote(value, safe=""), str({"x": value}), f"<{value}>"):
        shown = secrets.hide(f"the server said {form} twice")
        assert "alles" not in shown, form
        assert shown.endswith(" twice")


def test_a_secret_of_several_lines_is_hidden_line_by_line():
    secrets = Secrets()
    secrets.add("-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\n")
    assert secrets.hide("found:\n    MIIEvQIBADANBg\n    rest") == f"found:\n    {HIDDEN}\n    rest"


def test_a_short_secret_is_hidden_as_a_word_and_leaves_other_words_whole():
    secrets = Secrets()
    secrets.add("sea")
    assert secrets.hide("sea in a season, (sea)") == f"{HIDDEN} in a season, ({HIDDEN})"


def test_an_empty_secret_hides_nothing():
    secrets = Secrets()
    secrets.add("")
    secrets.add("  ")
    assert secrets.hide("as it was") == "as it was"


def test_the_longer_of_two_secrets_is_hidden_whole():
    secrets = Secrets()
    secrets.add("first-part")
    assert secrets.hide("first-part") == HIDDEN
    secrets.add("first-part-and-the-rest")
    assert secrets.hide("first-part-and-the-rest") == HIDDEN


def test_variables_that_are_called_secret_are_secrets():
    secrets = Secrets()
    secrets.add_environment(
        {
            "DB_PASSWORD": "hunter-two",
            "API_TOKEN": "t0k3n-t0k3n",
            "PWD": "/srv/here",
            "USE_TOKENS": "true",
            "HOME": "/root",
        }
    )
    shown = secrets.hide("hunter-two t0k3n-t0k3n /srv/here true /root")
    assert shown == f"{HIDDEN} {HIDDEN} /srv/here true /root"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.password", True),
        ("ssl.key.password", True),
        ("ssl.key.pem", True),
        ("sasl.jaas.config", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("AWS_ACCESS_KEY_ID", False),
        ("sasl.oauthbearer.client.secret", True),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("ssl.key.location", False),
        ("sasl.username", False),
        ("key", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool):
    assert is_secret(name) is secret


@pytest.mark.parametrize("name", ["proxy.pwd", "my.api_key_2", "ssl.key.pem", "a.private.thing", "a.bearer", "my.key"])
def test_what_sounds_like_a_secret_in_any_way_may_be_one(name: str):
    """Whatever is hidden in texts is not kept in files either; there, a doubt is enough."""
    assert may_be_secret(name)
    assert not may_be_secret("linger.ms")


def test_a_long_text_costs_no_more_than_its_length():
    """A message may quote a record of any size; looking for secrets in it must not take seconds."""
    secrets = Secrets()
    secrets.add("hunter-two")
    for text in ("a" * 200_000, "password" * 25_000, "x=" * 100_000, '\\"' * 100_000, "://" * 60_000, "a.b-" * 50_000):
        begun = time.perf_counter()
        secrets.hide(text)
        assert time.perf_counter() - begun < 2


def test_what_a_kafka_client_is_given_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path):
    from tidegate.core.redaction import SECRETS

    (tmp_path / "word").write_text("kept-in-a-file\n")
    monkeypatch.setenv("OF_KAFKA", "kept-in-the-environment")
    options = {
        "sasl.password": "written-in-the-program",
        "sasl.username": "env:OF_KAFKA",
        "ssl.key.password": f"file:{tmp_path}/word",
    }
    clients = Clients("localhost:9092", options)
    assert SECRETS.hide("written-in-the-program") == HIDDEN
    clients.settings()
    for value in ("kept-in-a-file", "kept-in-the-environment"):
        assert SECRETS.hide(f"the broker quotes {value}") == f"the broker quotes {HIDDEN}"
