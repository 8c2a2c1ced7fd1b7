"""A job with a page beside it: the page shows the running job, ends with it, and takes none of its time."""

from __future__ import annotations

import json
import time
import urllib.request

import pytest

from tests.integration.place import Place, wait_until
from tidegate import FileSink, JobHandle


def test_the_page_of_a_job_shows_it_while_it_runs_and_ends_with_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.write("sea")
    job = place.job(ui=True, ui_port=0)
    job.query("query", place.words(job), sinks=[FileSink("files", place.folder / "out", format="json")])
    handle: JobHandle = job.start()
    url = next(line.split()[1] for line in capsys.readouterr().err.splitlines() if line.startswith("page: "))
    wait_until(lambda: _jobs(url)[0]["last_checkpoint"] is not None, "its first epoch")
    shown = _jobs(url)[0]
    assert (shown["name"], shown["state"], shown["queries"]) == (handle.name, "RUNNING", 1)
    begun = time.monotonic()
    handle.stop()
    assert time.monotonic() - begun < 10.0
    wait_until(lambda: not _answers(url), "the end of the page")


def _jobs(url: str) -> list[dict[str, object]]:
    with urllib.request.urlopen(f"{url}jobs/cards", timeout=20) as answer:
        return json.load(answer)["jobs"]


def _answers(url: str) -> bool:
    try:
        _jobs(url)
    except OSError:
        return False
    return True
