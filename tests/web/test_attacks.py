"""Attacks on the page of a real server, sent as no client library would: each is refused, and nothing is done.

The attackers are sites that a user of this machine looks at, programs without the token, and whoever can write the logs
of a job.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.logged import events, told
from tests.web.served import ACT, RIGHT, TOKEN, ServedPage, answer_of, served_page
from tidegate.core.errors import Code, TidegateError
from tidegate.web import application, connection, guarding
from tidegate.web.guarding import SECURITY_HEADERS
from tidegate.web.tokens import WRONG_AT_MOST

VIEW = "/jobs/cards"
ATTACKER = "https://attacker.example"


@pytest.fixture(scope="module")
def module_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    with served_page(tmp_path_factory.mktemp("jobs")) as served:
        yield served


@pytest.fixture
def page(module_page: ServedPage, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServedPage]:
    """The page; after the test it must still answer, and wrong tokens are forgotten."""
    monkeypatch.setattr(guarding, "WRONG_TOKEN_SECONDS", 0.0)
    module_page.acts.done.clear()
    module_page.forget_wrong_tokens()
    yield module_page
    assert module_page.ask(VIEW).status == 200


def test_who_has_the_token_acts_and_everybody_on_this_machine_looks(page: ServedPage) -> None:
    assert page.ask(VIEW).status == 200
    assert page.act().status == 202
    assert len(page.acts.done) == 1


# --- other sites ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [VIEW, "/", "/access", "/no-such-path"])
def test_a_name_that_an_attacker_has_made_mean_this_machine_is_refused(page: ServedPage, target: str) -> None:
    """DNS rebinding: the browser takes our answers for those of the attacker's own site."""
    answer = page.ask(target, host="attacker.example")
    assert answer.status == 421
    assert page.act(host="attacker.example").status == 421
    assert page.acts.done == []


@pytest.mark.parametrize(
    "lines",
    [
        b"GET /jobs/cards HTTP/1.0\r\n",
        b"GET http://attacker.example/jobs/cards HTTP/1.1\r\nHost: attacker.example\r\n",
        b"GET /jobs/cards HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: attacker.example\r\n",
        b"GET /jobs/cards HTTP/1.1\r\nHost: attacker.example\r\nX-Forwarded-Host: 127.0.0.1\r\n",
    ],
    ids=["no host", "in the target", "two hosts", "forwarded"],
)
def test_a_host_that_is_not_clear_is_not_ours(page: ServedPage, lines: bytes) -> None:
    assert page.send(lines + b"Connection: close\r\n\r\n").status in (400, 421)


@pytest.mark.parametrize("origin", [ATTACKER, "null", "http://localhost:3000", "http://127.0.0.1.attacker.example"])
def test_a_page_of_another_origin_reads_and_does_nothing(page: ServedPage, origin: str) -> None:
    for answer in (page.ask(VIEW, {"Origin": origin}), page.act({"Origin": origin})):
        assert answer.status == 403
        assert not any(name.startswith("access-control-") for name in answer.headers)
    assert page.acts.done == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_of_another_site_does_nothing(page: ServedPage, content_type: str) -> None:
    """Browsers send these without asking the server first."""
    sent = {"Origin": ATTACKER, "Content-Type": content_type, "Sec-Fetch-Site": "cross-site"}
    assert page.ask(ACT, sent, method="POST", body=b'{"id": "x"}').status == 403
    assert page.acts.done == []


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_of_another_site_leads_to_the_page_and_not_into_a_view(page: ServedPage, site: str) -> None:
    linked = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    assert page.ask(VIEW, linked).status == 403
    assert page.ask("/access", linked).status == 200
    assert page.act(linked).status == 403


@pytest.mark.parametrize("origin", [ATTACKER, "http://127.0.0.1:{port}"])
def test_nobody_is_allowed_another_origin_by_a_preflight(page: ServedPage, origin: str) -> None:
    asked = {
        "Origin": origin.format(port=page.port),
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
        "Access-Control-Request-Private-Network": "true",
    }
    answer = page.ask(ACT, asked, method="OPTIONS")
    assert answer.status in (403, 405)
    assert not any(name.startswith("access-control-") for name in answer.headers)


@pytest.mark.parametrize(
    ("target", "method", "headers"),
    [
        (VIEW, "GET", {}),
        ("/access", "GET", {}),
        ("/no-such-path", "GET", {}),
        (ACT, "POST", {}),
        (ACT, "GET", {}),
        (VIEW, "GET", {"Origin": ATTACKER}),
        (VIEW, "GET", {"Authorization": "Bearer wrong"}),
    ],
)
def test_every_answer_has_the_headers_that_keep_other_sites_away(
    page: ServedPage, target: str, method: str, headers: Mapping[str, str]
) -> None:
    answer = page.ask(target, headers, method=method)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name.lower()] == value
    assert answer.headers["cache-control"] == "no-store"
    assert "server" not in answer.headers


def test_a_handler_that_fails_tells_nothing_and_has_the_same_headers(
    page: ServedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object) -> object:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("tidegate.web.site.Site.jobs", fail)
    answer = page.ask(VIEW)
    monkeypatch.undo()
    assert answer.status == 500
    assert b"inside" not in answer.body
    assert answer.headers["content-security-policy"] == SECURITY_HEADERS["Content-Security-Policy"]


def test_an_error_of_a_store_is_told_without_its_secrets(page: ServedPage, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://user:hunter2hunter2@host/db"

    def fail(self: object) -> object:
        raise TidegateError(Code.STORAGE_UNUSABLE, expected=f"an answer of {url}", found=f"none of {url}", where=url)

    monkeypatch.setattr("tidegate.web.site.Site.jobs", fail)
    answer = page.ask(VIEW)
    monkeypatch.undo()
    assert answer.status == 503
    assert answer.json["code"] == "TG-STORAGE-UNUSABLE"
    assert b"hunter2" not in answer.body


# --- the token -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        {"Cookie": f"token={TOKEN}"},
        {"X-Authorization": f"Bearer {TOKEN}"},
        {"Proxy-Authorization": f"Bearer {TOKEN}"},
    ],
)
def test_an_action_without_the_token_is_refused(page: ServedPage, headers: Mapping[str, str]) -> None:
    answer = page.ask(ACT, headers, method="POST", body=b"{}")
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert page.acts.done == []


@pytest.mark.parametrize("name", ["token", "access_token", "authorization"])
def test_a_token_in_the_address_does_not_count_and_is_not_repeated(
    page: ServedPage, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Addresses are kept in histories, logs and the header Referer."""
    with caplog.at_level(logging.DEBUG):
        answers = [
            page.ask(f"{ACT}?{name}={TOKEN}", method="POST", body=b"{}"),
            page.ask(f"{VIEW}?{name}={TOKEN}"),
            page.ask(f"/jobs/job/log?{name}={TOKEN}"),
        ]
    assert [answer.status for answer in answers] == [401, 400, 400]
    assert all(TOKEN.encode() not in answer.body for answer in answers)
    assert TOKEN not in caplog.text
    assert page.acts.done == []


def test_a_wrong_token_is_slow_and_soon_none_of_its_address_is_compared(
    page: ServedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    monkeypatch.setattr(guarding, "WRONG_TOKEN_SECONDS", 0.3)
    begun = time.monotonic()
    assert page.act(wrong).status == 401
    assert time.monotonic() - begun >= 0.3
    monkeypatch.setattr(guarding, "WRONG_TOKEN_SECONDS", 0.0)
    for _ in range(WRONG_AT_MOST - 1):
        assert page.act(wrong).status == 401
    answer = page.act()
    assert answer.status == 429
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert page.acts.done == []


def test_each_action_and_each_wrong_token_is_a_line_of_the_log_without_the_token(
    page: ServedPage, caplog: pytest.LogCaptureFixture
) -> None:
    page.act(body=b'{"id": "nightly"}')
    page.act({"Authorization": "Bearer not-the-token"})
    names = [name for name, _ in events(caplog)]
    assert names == ["ActedOnPage", "WrongToken"]
    acted = events(caplog)[0][1]
    assert {**acted, "at": ""} == {
        "at": "",
        "caller": "127.0.0.1",
        "action": "POST /jobs/{job}/acts",
        "of": "job",
        "what": "",
        "id": "nightly",
        "status": 202,
    }
    assert "'job' id 'nightly' by 127.0.0.1: answered 202" in told(caplog)[0]
    assert TOKEN not in caplog.text
    assert "not-the-token" not in caplog.text


def test_a_name_in_an_address_makes_no_line_of_its_own_in_the_log(
    page: ServedPage, caplog: pytest.LogCaptureFixture
) -> None:
    page.ask("/jobs/x%0d%0aforged%20line/acts", RIGHT, method="POST", body=b"{}")
    assert "\nforged" not in told(caplog)[0]


# --- paths ---------------------------------------------------------------------------------------------------

OUTSIDE = [
    "..",
    "%2e%2e",
    "..%2f..%2fetc",
    "%2fetc%2fpasswd",
    "..%5c..",
    ".",
    "job%00",
    "%00",
    "job%0d%0aX-Injected:%20yes",
]


@pytest.mark.parametrize("job", OUTSIDE)
@pytest.mark.parametrize("view", ["live", "log", "epochs"])
def test_no_name_of_a_job_leads_out_of_the_storage(page: ServedPage, job: str, view: str) -> None:
    answer = page.ask(f"/jobs/{job}/{view}")
    assert answer.status in (400, 404)
    assert "x-injected" not in answer.headers
    assert b"root:" not in answer.body


@pytest.mark.parametrize(
    "target",
    [
        "/../../../../etc/passwd",
        "//etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/jobs/../../etc/passwd",
        "/v1/../etc/passwd",
    ],
)
def test_no_path_leads_to_a_file_of_the_machine(page: ServedPage, target: str) -> None:
    assert page.ask(target).status == 404


def test_a_slash_at_the_end_is_no_redirect_to_a_host_that_the_client_names(page: ServedPage) -> None:
    answer = page.ask(VIEW + "/")
    assert answer.status == 404
    assert "location" not in answer.headers


# --- methods, headers, bodies --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "TRACK", "PUT", "DELETE", "PROPFIND", "get"])
def test_other_methods_are_not_served_and_repeat_nothing(page: ServedPage, method: str) -> None:
    answer = page.ask(VIEW, {"X-Secret": "of-the-client"}, method=method)
    assert answer.status in (400, 405)
    assert b"of-the-client" not in answer.body


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
def test_a_view_does_not_become_an_action_by_a_header(page: ServedPage, name: str) -> None:
    assert page.ask(ACT, {**RIGHT, name: "POST"}).status == 405
    assert page.ask(f"{ACT}?_method=POST", RIGHT).status == 405
    assert page.acts.done == []


def test_head_is_answered_as_get_is_without_a_body(page: ServedPage) -> None:
    answer = page.ask(VIEW, method="HEAD")
    assert answer.status == 200
    assert answer.body == b""
    assert int(answer.headers["content-length"]) > 0
    assert page.ask(ACT, RIGHT, method="HEAD").status == 405


def test_a_large_body_is_refused_before_all_of_it_is_read(page: ServedPage) -> None:
    size = 50_000_000
    head = f"POST {ACT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {size}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", page.port), 20.0) as connection:
        connection.sendall(head.encode() + b"x" * (application.BODY_BYTES_AT_MOST + 70_000))
        answer = connection.recv(1_000)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert page.acts.done == []


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Long": "x" * 100_000},
        {f"X-{number}": "x" * 50 for number in range(1_000)},
        {"X-Split": "a\rX-Injected: yes"},
        {"X-Null": "a\x00b"},
        {"Transfer-Encoding": "chunked", "Content-Length": "5"},
        {"Content-Length": "5, 6"},
        {"Transfer-Encoding": "gzip"},
    ],
    ids=["a long one", "many", "a bare return", "a null", "two lengths", "lengths that differ", "an unknown coding"],
)
def test_headers_that_are_large_or_broken_are_refused(page: ServedPage, headers: Mapping[str, str]) -> None:
    answer = page.ask(ACT, {**RIGHT, **headers}, method="POST")
    assert answer.status in (400, 431, 501)
    assert page.acts.done == []


def test_two_requests_in_one_are_two_requests_each_with_its_own_token(page: ServedPage) -> None:
    """A request that is smuggled into the body of another one has no token of it."""
    inner = f"POST {ACT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    outer = f"GET {VIEW} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    answer = page.send((outer + inner).encode())
    assert b"HTTP/1.1 401 " in answer.body
    assert page.acts.done == []


def test_a_client_that_never_ends_its_head_is_closed_and_keeps_nobody_out(
    page: ServedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slowloris. A byte now and then gives no more time, nor does a first request that was complete."""
    monkeypatch.setattr(connection, "HEAD_SECONDS_AT_MOST", 0.5)
    silent, slow, second = (socket.create_connection(("127.0.0.1", page.port), 20.0) for _ in range(3))
    second.sendall(b"GET /access HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert second.recv(65_536).startswith(b"HTTP/1.1 200 ")
    second.sendall(b"GET /acc")
    slow.sendall(b"GET /access HTTP/1.1\r\n")
    begun = time.monotonic()
    for number in range(4):
        time.sleep(0.1)
        slow.sendall(f"X-{number}: x\r\n".encode())
        assert page.ask("/access").status == 200
    for each in (silent, slow, second):
        with each:
            assert answer_of(each).status == 0
    assert time.monotonic() - begun < 5.0


def test_a_body_that_never_comes_is_not_awaited_for_long(page: ServedPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "BODY_SECONDS_AT_MOST", 0.3)
    head = f"POST {ACT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n{{"
    with socket.create_connection(("127.0.0.1", page.port), 20.0) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1_000).startswith(b"HTTP/1.1 408 ")
    assert page.acts.done == []


# --- what may be written by others ---------------------------------------------------------------------------


def test_a_log_that_is_a_link_to_a_secret_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    with served_page(tmp_path / "jobs") as page:
        logs = tmp_path / "jobs" / "job" / "logs"
        logs.mkdir()
        (logs / "a.log").write_text("password=hunter2hunter2 for the job\n")
        (logs / "newest.log").symlink_to(secret)
        answer = page.ask("/jobs/job/log")
    assert answer.json["lines"] == ["password=*** for the job"]
    assert answer.json["path"].endswith("/job/logs/a.log")
