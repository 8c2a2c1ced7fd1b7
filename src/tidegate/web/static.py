"""The page: its files, as they lie beside this module. They hold nothing of a job, and ask no other host anything."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

FOLDER = "/page"
_FILES = Path(__file__).parent / "page"
BYTES_AT_MOST = 300_000
"""All files together: a phone on a slow network opens the page, too."""

_MEDIA_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""By the end of the name. A file with another one is not served."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page. `etag`: changes with its bytes."""

    data: bytes
    media_type: str
    etag: str


@cache
def files() -> Mapping[str, PageFile]:
    """All files of the page, by their path in it."""
    return {path.relative_to(_FILES).as_posix(): found for path in sorted(_FILES.rglob("*")) if (found := _read(path))}


def page_routes() -> list[StarletteRoute]:
    """The page at `/`, and its files below `/page/`."""
    return [
        StarletteRoute("/", _page, methods=["GET"]),
        StarletteRoute(FOLDER + "/{path:path}", _file, methods=["GET"]),
    ]


async def _page(request: Request) -> Response:
    return _answer(request, "index.html")


async def _file(request: Request) -> Response:
    return _answer(request, request.path_params["path"])


def _answer(request: Request, path: str) -> Response:
    """The file, or that the browser has it. A path is a name in a table: there is nothing to climb out of."""
    found = files().get(path)
    if found is None:
        return Response(status_code=404)
    headers = {
        "ETag": found.etag,
        "Cache-Control": "no-cache",  # asks each time whether it has changed: an update shows at once
    }
    known = {each.strip() for each in request.headers.get("if-none-match", "").split(",")}
    if found.etag in known:
        return Response(status_code=304, headers=headers)
    return Response(found.data, headers=headers, media_type=found.media_type)


def _read(path: Path) -> PageFile | None:
    media_type = _MEDIA_TYPES.get(path.suffix)
    if media_type is None:
        return None
    data = path.read_bytes()
    return PageFile(data, media_type, f'"{hashlib.sha256(data).hexdigest()[:20]}"')
