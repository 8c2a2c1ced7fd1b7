"""The pictures of the page in `docs/reference/page.md`: `./dev pictures` draws them anew.

Each view is drawn on a desk and on a phone, light and dark. The page is the real one; its values are the tests' own.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.house.repository import ROOT
from tests.support.chromium import browser
from tests.web import canned
from tests.web.looking import SCHEMES, SCREENS, VIEWS, Looked, give_token, looking
from tests.web.page_server import Canned, full, served

FOLDER = ROOT / "docs" / "images" / "page"
_QUALITY = 70
_LONGEST_PX = {"desk": 1500, "phone": 1700}
"""A longer view is cut off there."""


def _nothing(_: Page) -> None:
    """The view as it opens."""


def _ask_for_a_savepoint(page: Page) -> None:
    page.get_by_role("button", name="Savepoint…").click()
    give_token(page)
    expect(page.get_by_role("dialog", name="Take a savepoint")).to_be_visible()


def _compare_two(page: Page) -> None:
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Compare the two that are picked").click()
    expect(page.locator(".inner")).to_contain_text("counts / epoch")


def _check_a_program(page: Page) -> None:
    page.get_by_label("or one of these").select_option(canned.PATH)
    page.get_by_role("button", name="Check, then start").click()
    give_token(page)
    expect(page.locator(".verdict")).to_contain_text("The program fits the savepoint")


@dataclass(frozen=True, slots=True)
class Picture:
    """A view in a state. `view`: a key of `VIEWS`."""

    name: str
    view: str
    reach: Callable[[Page], None] = _nothing

    def file(self, screen: str, scheme: str) -> Path:
        return FOLDER / f"{self.name}-{screen}-{scheme}.webp"

    def files(self) -> Iterator[Path]:
        return (self.file(screen, scheme) for screen, scheme in product(SCREENS, SCHEMES))


_REACHED = {"savepoints": _compare_two, "start": _check_a_program}
PICTURES = (
    *(Picture(view, view, _REACHED.get(view, _nothing)) for view in VIEWS),
    Picture("savepoint", "overview", _ask_for_a_savepoint),
)


def draw() -> None:
    """Write all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with browser() as chromium:
        for each, screen, scheme in product(PICTURES, SCREENS, SCHEMES):
            with served(_server().app()) as server, looking(chromium, screen=SCREENS[screen], scheme=scheme) as looked:
                looked.page.clock.set_fixed_time(canned.NOW)
                page = looked.at(server.address, VIEWS[each.view])
                each.reach(page)
                assert looked.wrong == [], looked.wrong
                file = each.file(screen, scheme)
                file.write_bytes(_drawn(looked, _LONGEST_PX[screen]))
                print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")


def _server() -> Canned:
    answers = full()
    fits = {"verdict": "ok", "changes": [], "reasons": [], "epochs": {"counts": 18_150}, "problem": None}
    answers["/jars/wordcount.py/check"] = {"id": "c1", "state": "done", **fits}
    return Canned(answers)


def _drawn(looked: Looked, longest: int) -> bytes:
    """The whole view, also what its screen does not show at once."""
    size = looked.page.viewport_size
    assert size is not None
    height = min(longest, max(size["height"] // 2, looked.page.evaluate("document.documentElement.scrollHeight")))
    looked.page.set_viewport_size({"width": size["width"], "height": height})
    session = looked.page.context.new_cdp_session(looked.page)
    drawn = session.send("Page.captureScreenshot", {"format": "webp", "quality": _QUALITY})
    return base64.b64decode(drawn["data"])


if __name__ == "__main__":
    draw()
    sys.exit()
