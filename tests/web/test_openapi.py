"""The OpenAPI document says what the routes do; what it allows never breaks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from tests.house.repository import ROOT
from tests.support.today import sampled
from tests.web.by_hand import ENTRY, ID, RIGHT, job_with_history, page, running_job
from tidegate.operate import Folder
from tidegate.web import openapi
from tidegate.web.application import build
from tidegate.web.routes import ROUTES
from tidegate.web.routing import Access, Method
from tidegate.web.site import Site


def test_the_document_that_is_checked_in_is_the_one_that_is_served(tmp_path: Path) -> None:
    with page(tmp_path) as client:
        served = client.get("/v1/openapi.json").content
    assert served == (ROOT / "docs/reference/openapi.json").read_bytes()


def test_each_route_is_an_operation_and_what_acts_needs_the_token() -> None:
    paths = openapi.document(ROUTES)["paths"]
    told = {(path, method): operation for path, methods in paths.items() for method, operation in methods.items()}
    assert set(told) == {(route.path, route.method.value.lower()) for route in ROUTES}
    for route in ROUTES:
        operation = told[route.path, route.method.value.lower()]
        assert ("security" in operation) == (route.access is Access.ACT)
        assert ("requestBody" in operation) == (route.body is not None)
    names = [each["operationId"] for each in told.values()]
    assert len(names) == len(set(names))


def test_whatever_changes_something_needs_the_token() -> None:
    assert {route.access for route in ROUTES if route.method is not Method.GET} == {Access.ACT}


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A job that runs and one that has ended."""
    found = tmp_path_factory.mktemp("jobs")
    job_with_history(found, "ended")
    with running_job(found):
        yield found


OPERATIONS = [pytest.param(route.method.value, route.path, id=f"{route.method.value} {route.path}") for route in ROUTES]
_SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
_KNOWN = {"job": ID, "checkpoint": "1"}


def _attack(storage: Path, method: str, path: str, examples: int) -> None:
    """Requests that fit the document, half of them to a job that exists: none breaks the server, each answer fits."""
    application = build(Site.of(Folder.of(storage), (str(storage),)), entry=ENTRY)
    schema = schemathesis.openapi.from_asgi("/openapi.json", application, base_url="http://localhost")
    operation = schema[path][method]

    @settings(max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=_SLOW)
    @given(case=operation.as_strategy(), is_known=st.booleans())
    def attack(case: Any, is_known: bool) -> None:
        if is_known:
            for name in set(case.path_parameters) & set(_KNOWN):
                case.path_parameters[name] = _KNOWN[name]
        answer = case.call(headers=RIGHT, base_url="http://localhost")
        case.validate_response(
            answer, checks=[not_a_server_error, content_type_conformance, response_schema_conformance]
        )

    attack()


@pytest.mark.parametrize(("method", "path"), sampled(OPERATIONS, 12))
def test_what_the_document_allows_breaks_nothing(storage: Path, method: str, path: str) -> None:
    _attack(storage, method, path, 3)


@pytest.mark.more
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_much_of_what_the_document_allows_breaks_nothing(storage: Path, method: str, path: str) -> None:
    _attack(storage, method, path, 200)
