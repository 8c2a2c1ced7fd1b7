"""The page beside a job: `Job(..., ui=True)`. It ends with the job, and no error of it reaches the job."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from tidegate.operate.notebook_view import in_notebook
from tidegate.settings.config import Settings
from tidegate.settings.given import PAGE_VARIABLE
from tidegate.spark.companions import Companion
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob
    from tidegate.web.serving import WebPage

_LOG = logging.getLogger("tidegate")


class PageOfJob(Companion):
    """Opens the page when the job starts, and closes it when the job has ended."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._page: WebPage | None = None

    def opening(self, handle: LiveJob) -> None:
        if PAGE_VARIABLE in os.environ:
            return
        try:
            self._open()
        except Exception as error:  # noqa: BLE001 (whatever it is, the job runs)
            _LOG.warning("the job runs without its page: %s", error)

    def ended(self, error: BaseException | None) -> None:
        if self._page is not None:
            self._page.close()

    def _open(self) -> None:
        from tidegate.web.serving import open_page  # only for a job with a page

        self._page = open_page(self._settings, new_token=_somebody_reads())
        self._page.start(Folder.of(self._settings.checkpointing_dir))
        print(self._page.announced, file=sys.stderr, flush=True)


def _somebody_reads() -> bool:
    """True if the standard error is a screen or a notebook. Elsewhere it may be kept as a log, which shows no token."""
    return sys.stderr.isatty() or in_notebook()
