"""Pictures of the site of `docs/`, to be looked at: `python -m tests.house.screenshots FOLDER`.

The site is built, served on this machine's loopback, and each page below is taken in a real browser without a window:
light and dark, as wide as a phone and as a desk. It ends with 1 when a page is wider than its screen, as with tables
that do not fit.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.house.repository import ROOT
from tests.support.chromium import browser
from tests.web.looking import SCHEMES, SCREENS, looking

PAGES = {"index": "", "tutorial": "tutorial/", "coming-from-flink": "coming-from-flink/", "api": "api/"}
MORE = {"how-it-works": "how-it-works/", "guarantees": "guarantees/", "page": "reference/page/"}


def main() -> int:
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as site:
        build(Path(site))
        with served(Path(site)) as address:
            too_wide = list(take_all(address, folder))
    for each in too_wide:
        print(f"wider than its screen: {each}")
    return 1 if too_wide else 0


def build(site: Path) -> None:
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = ["mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


@contextmanager
def served(site: Path) -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def take_all(address: str, folder: Path) -> Iterator[str]:
    """Yields the name of each picture whose page can be moved sideways."""
    with browser() as chromium:
        for (name, place), scheme, screen in product({**PAGES, **MORE}.items(), SCHEMES, SCREENS):
            with looking(chromium, screen=SCREENS[screen], scheme=scheme) as looked:
                looked.page.goto(f"{address}/{place}", wait_until="load")
                picture = f"{name}-{scheme}-{screen}.png"
                looked.page.screenshot(path=str(folder / picture), full_page=screen == "phone" and name != "api")
                if looked.is_wider_than_its_screen():
                    yield picture


if __name__ == "__main__":
    sys.exit(main())
