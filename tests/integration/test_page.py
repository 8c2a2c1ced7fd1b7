"""A job with a page beside it: the page shows the running job, ends with it, and takes none of its time. The program's
own objects show it in a notebook."""

from __future__ import annotations

import json
import time
import urllib.request

import pytest

from tests.integration.place import Place, error_of, wait_until
from tidegate import FileSink, JobHandle

AS_HTML = "_repr_html_"
"""The method that a notebook calls for the last value of a cell."""


def test_a_job_shows_itself_on_its_page_and_in_a_notebook_while_it_runs(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write("sea")
    job = place.job(ui=True, ui_port=0)
    job.query("query", place.words(job), sinks=[FileSink("files", place.folder / "out", format="json")])
    assert "query" in _html(job)
    assert "RUNNING" not in _html(job)
    handle: JobHandle = job.start()
    url = next(line.split()[1] for line in capsys.readouterr().err.splitlines() if line.startswith("page: "))
    wait_until(lambda: _jobs(url)[0]["last_checkpoint"] is not None, "its first epoch")
    shown = _jobs(url)[0]
    assert (shown["name"], shown["state"], shown["queries"]) == (handle.name, "RUNNING", 1)
    assert all("RUNNING" in html and "query" in html for html in (_html(job), _html(handle)))
    assert "a notebook" in error_of(handle.show).expected
    begun = time.monotonic()
    handle.stop()
    assert time.monotonic() - begun < 10.0
    wait_until(lambda: not _answers(url), "the end of the page")
    assert all("RUNNING" not in html and "query" in html for html in (_html(job), _html(handle)))


def _html(shown: object) -> str:
    return getattr(shown, AS_HTML)()


def _jobs(url: str) -> list[dict[str, object]]:
    with urllib.request.urlopen(f"{url}jobs/cards", timeout=20) as answer:
        return json.load(answer)["jobs"]


def _answers(url: str) -> bool:
    try:
        _jobs(url)
    except OSError:
        return False
    return True
