"""The server of the page: its address, its certificates, its start and its end, and what each setting changes."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.web.served import KNOWN, RIGHT, TOKEN, answer_of, served_page
from tidegate.core.errors import Code, TidegateError
from tidegate.operate import Folder
from tidegate.settings.config import Settings
from tidegate.settings.reading import read_settings
from tidegate.web.serving import WebPage, open_page
from tidegate.web.tokens import TOKEN_VARIABLE

VIEW = "/jobs/cards"


def refused(settings: Settings) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        WebPage(settings, KNOWN)
    return caught.value


def test_port_zero_takes_a_free_one_and_the_address_shows_it() -> None:
    with WebPage(Settings(ui_port=0), KNOWN) as one, WebPage(Settings(ui_port=0), KNOWN) as other:
        assert one.url == f"http://{one.address}/"
        assert one.address.startswith("127.0.0.1:")
        assert one.address != other.address


def test_a_port_of_another_program_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = refused(Settings(ui_port=port))
    assert error.catalogue_entry is Code.PAGE_UNUSABLE
    assert "another program" in error.found
    assert str(port) in error.where
    assert "--port" in error.next_step


def test_an_address_of_another_machine_is_refused() -> None:
    assert refused(Settings(ui_host="192.0.2.1", ui_port=0)).catalogue_entry is Code.PAGE_UNUSABLE
    assert refused(Settings(ui_host="no-such-host.invalid", ui_port=0)).catalogue_entry is Code.PAGE_UNUSABLE


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_it_listens_on_the_loopback_address_of_ipv6(tmp_path: Path) -> None:
    with WebPage(Settings(ui_host="::1", ui_port=0), KNOWN) as page:
        page.start(Folder.of(tmp_path))
        assert page.url.startswith("http://[::1]:")
        port = int(page.address.rpartition(":")[2])
        with socket.create_connection(("::1", port), 20.0) as connection:
            connection.sendall(f"GET {VIEW} HTTP/1.1\r\nHost: [::1]:{port}\r\nConnection: close\r\n\r\n".encode())
            assert answer_of(connection).status == 200


# --- other machines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_no_other_machine_reaches_it_without_tls_or_a_proxy(host: str) -> None:
    error = refused(Settings(ui_host=host, ui_port=0))
    assert error.catalogue_entry is Code.SETTINGS_CLASH
    assert "ui.tls_cert" in error.next_step


def test_no_other_machine_reaches_it_without_a_token_that_somebody_knows() -> None:
    with pytest.raises(TidegateError) as caught:
        WebPage(Settings(ui_port=0, ui_proxy="https://jobs.example.com"), None)
    assert caught.value.catalogue_entry is Code.SETTINGS_CLASH


def test_behind_a_proxy_views_need_the_token_and_its_origin_is_ours(tmp_path: Path) -> None:
    with served_page(tmp_path, ui_proxy="https://jobs.example.com") as served:
        named = "GET {} HTTP/1.1\r\nHost: jobs.example.com\r\n{}Connection: close\r\n\r\n"
        with_token = f"Authorization: Bearer {TOKEN}\r\nOrigin: https://jobs.example.com\r\n"
        assert served.page.url == "https://jobs.example.com/"
        assert served.send(named.format(VIEW, "").encode()).status == 401
        assert served.send(named.format("/access", "").encode()).status == 200
        assert served.send(named.format(VIEW, with_token).encode()).status == 200
        assert served.ask(VIEW).status == 401
        assert served.ask(VIEW, RIGHT, host="other.example.com").status == 421
        assert served.ask(VIEW, {**RIGHT, "Origin": "https://other.example.com"}).status == 403


def test_behind_a_proxy_the_log_has_the_address_that_the_proxy_has_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    claimed = {"X-Forwarded-For": "of-the-attackers-choice, 198.51.100.7"}
    with served_page(tmp_path, ui_proxy="https://jobs.example.com") as served:
        served.act(claimed)
    assert "by 198.51.100.7 through 127.0.0.1" in caplog.text
    with served_page(tmp_path) as served:
        served.act(claimed)
    assert "by 127.0.0.1: answered" in caplog.text


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", *made, *names, "-out", str(cert), "-keyout", str(key)], check=True, capture_output=True
    )
    return cert, key


def test_with_a_certificate_it_has_tls_and_other_machines_may_look_with_the_token(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    cert, key = certificate
    settings: dict[str, Any] = {"ui_host": "0.0.0.0", "ui_tls_cert": str(cert), "ui_tls_key": str(key)}
    trusting = ssl.create_default_context(cafile=str(cert))
    with served_page(tmp_path, KNOWN, **settings) as served:
        assert served.page.url.startswith("https://")
        for headers, status in (("", 401), (f"Authorization: Bearer {TOKEN}\r\n", 200)):
            with (
                socket.create_connection(("127.0.0.1", served.port), 20.0) as plain,
                trusting.wrap_socket(plain, server_hostname="localhost") as connection,
            ):
                head = f"GET {VIEW} HTTP/1.1\r\nHost: localhost:{served.port}\r\n{headers}Connection: close\r\n\r\n"
                connection.sendall(head.encode())
                assert answer_of(connection).status == status
        assert served.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").status == 0


def test_a_certificate_and_a_key_that_do_not_belong_together_are_refused(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    cert, _ = certificate
    for key in (tmp_path / "missing.pem", cert):
        error = refused(Settings(ui_port=0, ui_tls_cert=str(cert), ui_tls_key=str(key)))
        assert error.catalogue_entry is Code.PAGE_UNUSABLE
        assert str(key) in error.where


# --- settings ------------------------------------------------------------------------------------------------


def test_the_token_file_has_the_token_and_a_new_one_is_made_only_where_somebody_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    with open_page(Settings(ui_port=0, ui_token_file=str(file)), {}) as page:
        assert page.token is not None
        assert page.token.secret == TOKEN
        assert TOKEN not in page.announced
    with open_page(Settings(ui_port=0), {}) as page:
        assert page.token is not None
        assert page.announced == f"page: {page.url}  token: {page.token.secret}"
    with open_page(Settings(ui_port=0), {}, new_token=False) as page:
        assert page.token is None
        assert TOKEN_VARIABLE in page.announced
    with open_page(Settings(ui_port=0), {TOKEN_VARIABLE: TOKEN}, new_token=False) as page:
        assert page.token is not None


def test_without_a_token_everybody_looks_and_nobody_acts(tmp_path: Path) -> None:
    with served_page(tmp_path, None) as served:
        assert served.ask("/access").json == {"acting": "refused", "may_act": False, "programs": False}
        answer = served.act()
        assert answer.status == 401
        assert "ui.token_file" in answer.json["next_step"]


def test_a_caller_is_told_what_it_may_do(tmp_path: Path) -> None:
    with served_page(tmp_path, ui_programs=("/srv/programs",)) as served:
        assert served.ask("/access").json == {"acting": "token", "may_act": False, "programs": True}
        assert served.ask("/v1/access", RIGHT).json == {"acting": "token", "may_act": True, "programs": True}


@pytest.mark.parametrize(
    ("setting", "read"),
    [
        ("ui.port=0", 0),
        ("ui.host=[::1]", "::1"),
        ("ui.proxy=HTTPS://Jobs.example.com:443/", "https://jobs.example.com"),
        ("ui.programs=/a:/b c:", ("/a", "/b c")),
    ],
)
def test_a_setting_is_read_as_people_write_it(setting: str, read: object) -> None:
    settings = read_settings({}, {}, [setting])
    assert getattr(settings, setting.partition("=")[0].replace(".", "_")) == read


@pytest.mark.parametrize(
    "setting",
    [
        "ui.port=65536",
        "ui.port=-1",
        "ui.host=http://localhost",
        "ui.host=localhost:80",
        "ui.proxy=http://jobs.example.com",
        "ui.proxy=https://jobs.example.com/path",
        "ui.proxy=https://name:password@jobs.example.com",
        "ui.programs=s3://bucket/programs",
    ],
)
def test_a_setting_that_does_not_fit_is_refused(setting: str) -> None:
    with pytest.raises(TidegateError):
        read_settings({}, {}, [setting])


def test_a_list_of_folders_may_be_a_list() -> None:
    settings = read_settings({"ui_programs": ["/a", "/b"]}, {})
    assert settings.ui_programs == ("/a", "/b")


# --- the end -------------------------------------------------------------------------------------------------


def test_a_close_waits_for_nothing_and_the_server_ends_soon(tmp_path: Path) -> None:
    """Also with a reader whose answer does not end."""
    with served_page(tmp_path) as served, socket.create_connection(("127.0.0.1", served.port), 20.0) as reader:
        reader.sendall(b"GET /access HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert reader.recv(10)
        begun = time.monotonic()
        served.page.close()
        assert time.monotonic() - begun < 0.1
        assert served.page.wait(10.0)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", served.port), 1.0)
    assert not any(each.name == "tidegate-page" for each in threading.enumerate())


def test_a_page_that_never_served_leaves_its_address_at_the_end() -> None:
    with WebPage(Settings(ui_port=0), KNOWN) as page:
        port = int(page.address.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_what_asks_before_the_folder_is_known_is_answered_then(tmp_path: Path) -> None:
    with WebPage(Settings(ui_port=0), KNOWN) as page:
        port = int(page.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 20.0) as early:
            early.sendall(b"GET /access HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            page.start(Folder.of(tmp_path))
            assert answer_of(early).status == 200
