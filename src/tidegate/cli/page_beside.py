"""The page beside a supervised job: `tidegate run --ui`. It shows the job while drivers come and go, and ends with
it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from tidegate.core.errors import TidegateError
from tidegate.operate import Folder
from tidegate.settings.config import Settings
from tidegate.settings.kinds import WarmUp
from tidegate.supervise.news import News, PassedOn

if TYPE_CHECKING:
    from tidegate.web.serving import WebPage


@contextmanager
def opened_page(settings: Settings, environment: Mapping[str, str]) -> Generator[WebPage | None]:
    """The page at the address of the settings, until the job has ended. None, with a note of the reason, if it cannot
    be opened: the job runs without it."""
    try:
        from tidegate.web.serving import open_page  # only for a job with a page

        page = open_page(settings, environment)
    except TidegateError as error:
        typer.echo(f"note: the job runs without its page\n{error}", err=True)
        yield None
        return
    with page:
        yield page


class PageNews(PassedOn):
    """Passes the news on, and serves the page from the moment when the folder of the jobs is known."""

    def __init__(self, told: News, page: WebPage) -> None:
        super().__init__(told)
        self._page = page
        self._is_served = False

    def declared(self, job: str, folder: Folder, warm_up: WarmUp) -> None:
        if not self._is_served:
            self._is_served = True
            self._page.start(folder.parent)
        super().declared(job, folder, warm_up)
