"""Problem details show no secret, in none of their fields."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest
from starlette.testclient import TestClient

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import HIDDEN, SECRETS
from tidegate.operate import Folder
from tidegate.web.application import build
from tidegate.web.problems import RequestProblem, problem, problem_of, refusal
from tidegate.web.shapes import Problem
from tidegate.web.site import Site

SECRET = "hush-hush-hush"
SECRETS.add(SECRET)
ERROR = TidegateError(
    Code.STORAGE_UNUSABLE,
    expected=f"an answer to {SECRET}",
    found=f"none to {SECRET}",
    where=f"s3://{SECRET}",
    next_step=f"try s3://{SECRET} by hand",
)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(problem_of(ERROR), id="an error of tidegate"),
        pytest.param(
            problem(HTTPStatus.BAD_REQUEST, f"no {SECRET}", f"not {SECRET}"), id="a request that does not fit"
        ),
        pytest.param(refusal(f"job j said {SECRET}", f"see {SECRET}").problem, id="a request that is refused"),
        pytest.param(RequestProblem(HTTPStatus.CONFLICT, SECRET, SECRET).problem, id="a request before its job"),
    ],
)
def test_a_problem_shows_no_secret_in_any_of_its_fields(found: Problem) -> None:
    assert SECRET not in msgspec.json.encode(found).decode()
    assert found.next_step
    assert found.errors


def test_what_is_said_about_a_token_is_not_taken_for_one(tmp_path: Path) -> None:
    client = TestClient(build(Site.of(Folder.of(tmp_path))), base_url="http://127.0.0.1")
    refused = client.post("/jobs/job/actions", json={"kind": "stop"})
    assert refused.status_code == 401
    assert "ui.token_file" in refused.json()["next_step"]
    assert HIDDEN not in refused.text
