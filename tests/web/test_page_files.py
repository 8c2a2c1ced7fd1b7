"""The files of the page: what a server gives out, without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path

import pytest
from starlette.applications import Starlette

from tests.house.repository import ROOT
from tests.web.page_server import Served, served
from tests.web.pictures import FOLDER, PICTURES
from tidegate.web.static import BYTES_AT_MOST, files, page_routes

OTHER_HOST = re.compile(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}")
NAMES_OF_A_FORMAT = ("http://www.w3.org/2000/svg",)
DOCUMENT = ROOT / "docs" / "reference" / "page.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(Starlette(routes=page_routes())) as server:
        yield server


def get(server: Served, path: str, **headers: str) -> tuple[int, HTTPMessage, bytes]:
    """The answer to exactly this path: clients of browsers would tidy it up."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def test_all_files_together_are_small() -> None:
    assert 10_000 < sum(len(each.data) for each in files().values()) <= BYTES_AT_MOST


def test_no_file_names_another_host() -> None:
    for path, each in files().items():
        text = each.data.decode()
        for name in NAMES_OF_A_FORMAT:
            text = text.replace(name, "")
        assert OTHER_HOST.findall(text) == [], path


def test_no_file_parses_text_as_html_or_as_a_program() -> None:
    forbidden = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function")
    for path, each in files().items():
        assert forbidden.findall(each.data.decode()) == [], path


def test_the_page_has_no_script_and_no_style_of_its_own_in_it() -> None:
    page = files()["index.html"].data.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", page) == []


def test_each_module_that_is_imported_exists() -> None:
    for path, each in files().items():
        if not path.endswith(".js"):
            continue
        for name in re.findall(r'from "(\.[^"]+)"', each.data.decode()):
            wanted = (Path("/") / path).parent.joinpath(name).resolve()
            assert str(wanted)[1:] in files(), f"{path} imports {name}"


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page/style.css", "text/css; charset=utf-8"),
        ("/page/app.js", "text/javascript; charset=utf-8"),
        ("/page/views/jobs.js", "text/javascript; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ],
)
def test_a_file_has_its_media_type_and_is_not_sent_twice(server: Served, path: str, media_type: str) -> None:
    status, headers, data = get(server, path)
    assert (status, headers["content-type"], len(data) > 100) == (200, media_type, True)
    status, _, data = get(server, path, If_None_Match=f'"other", {headers["etag"]}')
    assert (status, data) == (304, b"")
    assert get(server, path, If_None_Match='"other"')[0] == 200


@pytest.mark.parametrize(
    "path", ["/page/nothing.js", "/page/../static.py", "/page/%2e%2e/static.py", "/page//etc/passwd"]
)
def test_nothing_else_is_given_out(server: Served, path: str) -> None:
    assert get(server, path)[0] == 404


def test_no_file_of_the_page_lies_unserved() -> None:
    root = Path(__file__).parents[2] / "src/tidegate/web/page"
    assert {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} == set(files())


def test_the_documents_show_each_view_on_each_screen_in_both_colours() -> None:
    shown = re.findall(r"\(\.\./images/page/([^#)]+)#only-", DOCUMENT.read_text(encoding="utf-8"))
    drawn = sorted(file.name for each in PICTURES for file in each.files())
    assert sorted(shown) == sorted(file.name for file in FOLDER.iterdir()) == drawn
