"""What a page of jobs in S3 costs in requests: its readers share each look, and a look has a bounded number of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.jobs.folders import say
from tests.support.counted import Counted, counting
from tests.support.s3 import S3Server
from tests.web.by_hand import ENTRY, RIGHT, ended_job, job_with_history
from tidegate.operate import Folder
from tidegate.operate.beat import JobState
from tidegate.web.application import build
from tidegate.web.site import Site
from tidegate.web.watching import BY_REQUESTS_SECONDS

JOBS = 5
READERS = 3
LOOKS_A_MINUTE = 60 / BY_REQUESTS_SECONDS
OF_THE_LIST = 12
"""Requests for each job in the list, in one look."""
OF_ONE_JOB = 30
"""Requests of the overview of one job, in one look."""
OVERVIEW = ("live", "epochs?newest=200", "events-on-axis")


@pytest.fixture
def jobs(s3: S3Server, tmp_path: Path) -> Folder:
    """Jobs with a query that has worked, and a history of epochs and a failure."""
    queries, made, folder = ended_job(tmp_path / "one") / "queries", tmp_path / "made", s3.folder()
    for number in range(JOBS):
        job = job_with_history(made, f"job-{number}")
        shutil.copytree(queries, job / "queries")
        say(job, JobState.FINISHED)
    client, prefix = s3.client(), str(folder).removeprefix(f"s3://{s3.bucket}/")
    for file in made.rglob("*"):
        if file.is_file():
            client.put_object(Bucket=s3.bucket, Key=f"{prefix}/{file.relative_to(made)}", Body=file.read_bytes())
    return folder


def test_readers_share_the_looks_at_a_list_of_jobs_and_at_one_of_them(jobs: Folder) -> None:
    counted, site = Counted(), Site.of(jobs)
    page = TestClient(build(site, entry=ENTRY), headers=RIGHT)

    def requests_of(*paths: str) -> int:
        begin = counted.now()
        for path in paths:
            assert page.get(path).status_code == 200
        return counted.now() - begin

    overview = [f"/jobs/job-0/{each}" for each in OVERVIEW]
    with counting(counted):
        assert len(page.get("/jobs/cards").json()["jobs"]) == JOBS
        first = counted.now()
        assert requests_of(*["/jobs/cards"] * READERS) == 0
        site.watch.forget()
        later = requests_of(*["/jobs/cards"] * READERS)
        site.watch.forget()
        of_one = requests_of(*overview * READERS)
    assert 0 < later <= first <= OF_THE_LIST * JOBS
    assert 0 < of_one <= OF_ONE_JOB
    assert LOOKS_A_MINUTE == 4
