"""Pictures of the site of `docs/`, to be looked at: `python -m tests.house.screenshots FOLDER`.


The site is built, served on this machine's loopback, and each page below is taken in a real browser without a window:
light and dark, as wide as a phone and as a desk. It ends with 1 when a page is wider than its screen, as with tables
that do not fit.

Chromium has to be on PATH. Playwright drives it, and is no part of the environment:
`./dev run uv run --no-sync --with playwright python -m tests.house.screenshots FOLDER`.
"""

from __future__ import annotations

import os
import shutil
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

PAGES = {"index": "", "tutorial": "tutorial/", "coming-from-flink": "coming-from-flink/", "api": "api/"}
MORE = {"how-it-works": "how-it-works/", "guarantees": "guarantees/"}
SCHEMES = ("light", "dark")
WIDTHS = {"phone": (390, 844), "desk": (1280, 900)}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


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
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    path = next(found for name in BROWSERS if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for (name, place), scheme, screen in product({**PAGES, **MORE}.items(), SCHEMES, WIDTHS):
            width, height = WIDTHS[screen]
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            page = context.new_page()
            page.goto(f"{address}/{place}", wait_until="load")
            picture = f"{name}-{scheme}-{screen}.png"
            page.screenshot(path=str(folder / picture), full_page=screen == "phone" and name != "api")
            if page.evaluate("document.documentElement.scrollWidth") > width:
                yield picture
            context.close()
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
