"""A page in a browser, with everything that went wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from tests.web.page_server import TOKEN

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
SCREENS = {"desk": DESK, "phone": PHONE}
SCHEMES = ("light", "dark")
VIEWS = {
    "jobs": "#/",
    "overview": "#/jobs/wordcount",
    "checkpoints": "#/jobs/wordcount/checkpoints",
    "history": "#/jobs/wordcount/checkpoints/history",
    "summary": "#/jobs/wordcount/checkpoints/summary",
    "configuration": "#/jobs/wordcount/checkpoints/configuration",
    "savepoints": "#/jobs/wordcount/checkpoints/savepoints",
    "sinks": "#/jobs/wordcount/sinks",
    "sources": "#/jobs/wordcount/sources",
    "exceptions": "#/jobs/wordcount/exceptions",
    "settings": "#/jobs/wordcount/settings",
    "log": "#/jobs/wordcount/log",
    "start": "#/start",
}
_NOT_SERVED = "Failed to load resource"
"""What a browser says of each answer that is no 2xx: the page asks for what a server may not have."""


@dataclass(slots=True)
class Looked:
    """`wrong`: errors and warnings, violations of the policy included. `hosts`: whom the page has asked."""

    page: Page
    wrong: list[str] = field(default_factory=list[str])
    hosts: set[str] = field(default_factory=set[str])

    def at(self, address: str, place: str) -> Page:
        """Go there, and wait until its values are there."""
        self.page.goto(f"{address}/{place}")
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(self.page.locator("main h1")).to_be_attached()
        expect(self.page.locator("main .waiting")).to_have_count(0)
        return self.page

    def is_wider_than_its_screen(self) -> bool:
        return self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")

    def overfull_cells(self) -> list[str]:
        """The cells of tables whose text runs into their neighbours: between two of them lie at least 14 pixels."""
        return self.page.evaluate(
            "[...document.querySelectorAll('main td, main th')]"
            ".filter((each) => each.clientWidth > 1 && each.scrollWidth > each.clientWidth + 12)"
            ".map((each) => each.innerText)"
        )


@contextmanager
def looking(browser: Browser, *, screen: dict[str, int] = DESK, scheme: str = "light", **more: Any) -> Iterator[Looked]:
    """A tab of its own."""
    context = browser.new_context(viewport=screen, color_scheme=scheme, **more)  # pyright: ignore[reportArgumentType]
    context.set_default_timeout(10_000)
    page = context.new_page()
    looked = Looked(page)

    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and _NOT_SERVED not in message.text:
            looked.wrong.append(message.text)

    def asked(request: Request) -> None:
        looked.hosts.add(request.url.split("/")[2].split(":")[0])

    page.on("console", said)
    page.on("pageerror", lambda error: looked.wrong.append(str(error)))
    page.on("request", asked)
    try:
        yield looked
    finally:
        context.close()


def give_token(page: Page) -> None:
    """Answer the page that asks for the token of `page_server`."""
    dialog = page.get_by_role("dialog", name="Token")
    dialog.get_by_label("Token", exact=True).fill(TOKEN)
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
