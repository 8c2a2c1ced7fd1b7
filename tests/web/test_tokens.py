"""The token: where it comes from, how it is compared, that nothing shows it."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from tests.support.clock import SimulatedClock
from tidegate.core.errors import TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.web.guard import TokenGiven
from tidegate.web.tokens import TOKEN_VARIABLE, WRONG_AT_MOST, Token, TokenOrigin, Tokens, TooManyWrong, find_token

SECRET = "a-secret-of-enough-characters"
TOKEN = Token(SECRET, TokenOrigin.FILE)
RIGHT = [f"Bearer {SECRET}"]


def test_a_file_counts_before_the_environment_and_without_both_there_is_a_new_one(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    environment = {TOKEN_VARIABLE: "another-secret-of-enough-characters"}
    assert find_token(str(file), environment) == TOKEN
    assert find_token(None, environment).secret == environment[TOKEN_VARIABLE]
    made, again = find_token(None, {}), find_token(None, {})
    assert made.secret != again.secret
    assert len(made.secret) >= 40


def test_only_a_new_token_is_shown(tmp_path: Path) -> None:
    made = find_token(None, {})
    assert made.shown == made.secret
    assert SECRET not in TOKEN.shown
    assert SECRET not in find_token(None, {TOKEN_VARIABLE: SECRET}).shown


def test_no_text_of_a_program_shows_it() -> None:
    made = find_token(None, {})
    assert made.secret not in repr(made)
    assert made.secret not in SECRETS.hide(f"GET /?x={made.secret} failed for {made.secret!r}")


@pytest.mark.parametrize(
    "text", ["", "too-short", "long enough but with spaces", "x" * 600, "a\r\nHost: another-one-0"]
)
def test_a_token_that_does_not_fit_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    for given, environment in ((str(file), {}), (None, {TOKEN_VARIABLE: text})):
        with pytest.raises(TidegateError) as caught:
            find_token(given, environment)
        assert not text or text not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(TidegateError) as caught:
        find_token(str(file), {})
    assert str(file) in caught.value.where


@pytest.mark.parametrize(
    ("headers", "given"),
    [
        ([], TokenGiven.NONE),
        (RIGHT, TokenGiven.RIGHT),
        ([f"bearer  {SECRET}"], TokenGiven.RIGHT),
        ([*RIGHT, *RIGHT], TokenGiven.WRONG),
        ([f"Basic {SECRET}"], TokenGiven.WRONG),
        ([SECRET], TokenGiven.WRONG),
        ([f"Bearer {SECRET}x"], TokenGiven.WRONG),
        ([f"Bearer {SECRET[:-1]}"], TokenGiven.WRONG),
        (["Bearer \xe9\x00"], TokenGiven.WRONG),
        (["Bearer "], TokenGiven.WRONG),
        ([""], TokenGiven.WRONG),
    ],
)
def test_the_token_is_right_only_as_a_whole_and_once(headers: list[str], given: TokenGiven) -> None:
    assert Tokens(TOKEN).given(headers, "127.0.0.1") is given


def test_the_time_of_a_comparison_tells_nothing_of_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, secret: bytes) -> bool:
        compared.append((given, secret))
        return given == secret

    monkeypatch.setattr("hmac.compare_digest", compare)
    assert Tokens(TOKEN).given(["Bearer guess"], "127.0.0.1") is TokenGiven.WRONG
    assert compared == [(b"guess", SECRET.encode())]


def test_a_server_without_a_token_knows_no_right_one() -> None:
    assert Tokens(None).given(["Bearer None"], "127.0.0.1") is TokenGiven.WRONG


def test_after_a_few_wrong_tokens_of_an_address_none_of_it_is_compared_for_a_minute() -> None:
    clock = SimulatedClock()
    tokens = Tokens(TOKEN, clock.now)
    for _ in range(WRONG_AT_MOST):
        assert tokens.given(["Bearer wrong"], "10.0.0.1") is TokenGiven.WRONG
        clock.sleep(1.0)
    with pytest.raises(TooManyWrong) as caught:
        tokens.given(RIGHT, "10.0.0.1")
    assert 0 < caught.value.retry_seconds <= 60.0
    assert tokens.given([], "10.0.0.1") is TokenGiven.NONE
    assert tokens.given(RIGHT, "10.0.0.2") is TokenGiven.RIGHT
    clock.sleep(caught.value.retry_seconds)
    assert tokens.given(RIGHT, "10.0.0.1") is TokenGiven.RIGHT


def test_all_addresses_of_one_network_of_ipv6_are_counted_as_one() -> None:
    tokens = Tokens(TOKEN)
    for number in range(WRONG_AT_MOST):
        tokens.given(["Bearer wrong"], f"fd00:0:0:1::{number:x}")
    with pytest.raises(TooManyWrong):
        tokens.given(RIGHT, "fd00:0:0:1:ffff::1")
    assert tokens.given(RIGHT, "fd00:0:0:2::1") is TokenGiven.RIGHT


def test_the_memory_of_wrong_tokens_is_bounded() -> None:
    tokens = Tokens(TOKEN)
    for number in range(1_500):
        tokens.given(["Bearer wrong"], f"10.0.{number // 256}.{number % 256}")
    assert len(vars(tokens)["_wrong"]) == 1_000
