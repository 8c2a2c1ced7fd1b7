"""Chromium for tests of the page, without a window: one for each run of pytest.

    def test_something(chromium: Browser) -> None:
        with chromium.new_context() as context: ...

That of the machine is taken where PATH has one, else Debian's packages. Where it cannot be had, its tests are skipped
with the reason; where the environment has CI set, they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.debian import NotToBeHad, Packages, environment_of, unpacked
from tests.support.s3 import skip_or_fail

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = Packages(
    "chromium",
    (
        "chromium", "chromium-common", "fontconfig-config", "fonts-dejavu-core", "libasound2", "libasyncns0",
        "libatk-bridge2.0-0", "libatk1.0-0", "libatspi2.0-0", "libavahi-client3", "libavahi-common3",
        "libcairo-gobject2", "libcairo2", "libcolord2", "libcups2", "libdatrie1", "libdbus-1-3",
        "libdouble-conversion3", "libdrm2", "libepoxy0", "libexpat1", "libflac12", "libfontconfig1", "libfreetype6",
        "libfribidi0", "libgbm1", "libgdk-pixbuf-2.0-0", "libgraphite2-3", "libgtk-3-0", "libharfbuzz-subset0",
        "libharfbuzz0b", "libjpeg62-turbo", "libjsoncpp25", "liblcms2-2", "libminizip1", "libmp3lame0", "libmpg123-0",
        "libnspr4", "libnss3", "libogg0", "libopenh264-7", "libopenjp2-7", "libopus0", "libpango-1.0-0",
        "libpangocairo-1.0-0", "libpangoft2-1.0-0", "libpixman-1-0", "libpng16-16", "libpulse0", "libsndfile1",
        "libthai0", "libvorbis0a", "libvorbisenc2", "libwayland-client0", "libwayland-cursor0", "libwayland-egl1",
        "libwayland-server0", "libwebp7", "libwebpdemux2", "libwebpmux3", "libx11-6", "libxau6", "libxcb-render0",
        "libxcb-shm0", "libxcb1", "libxcomposite1", "libxcursor1", "libxdamage1", "libxdmcp6", "libxext6",
        "libxfixes3", "libxi6", "libxinerama1", "libxkbcommon0", "libxnvctrl0", "libxrandr2", "libxrender1",
        "libxslt1.1",
    ),
)  # fmt: skip


def program() -> tuple[Path, Mapping[str, str]]:
    """The program, and what it needs beside the environment. Raises NotToBeHad."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is not None:
        return Path(found), {}
    folder = unpacked(PACKAGES)
    return folder / "usr/lib/chromium/chromium", environment_of(folder)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser without a window. Raises NotToBeHad."""
    from playwright.sync_api import sync_playwright

    path, variables = program()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            env={**os.environ, **variables},
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The one browser of this run of pytest. Shared: open contexts of your own."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(browser())
        except NotToBeHad as error:
            skip_or_fail(f"no Chromium for tests: {error}")
            raise
        yield started
