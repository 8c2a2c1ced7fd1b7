"""The OpenAPI document, written from the table of routes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from tidegate.web import problems
from tidegate.web.routing import Access, Route
from tidegate.web.shapes import JsonObject, Problem

_REFERENCE = "#/components/schemas/{name}"
_PARTS = re.compile(r"\{(\w+)\}")

_TOLD = {
    "job": "A job: 32 hex digits (its id, and zeros), its id of 8 digits, or its name.",
    "ticket": "The id of an action.",
    "trigger": "The id of an action, of 32 hex digits.",
    "checkpoint": "The number of a checkpoint.",
    "jar": "The id of a program.",
}


def document(routes: Sequence[Route]) -> JsonObject:
    """The document, as JSON objects. A route with and without `/v1` is the same, and is told once."""
    schemas = _Schemas(routes)
    paths: dict[str, JsonObject] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.value.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tidegate",
            "version": version("tidegate"),
            "description": "Jobs of a checkpoint storage. Each path is served below `/v1`, too.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def as_json(routes: Sequence[Route]) -> bytes:
    """The document, as it is served and checked in."""
    return (json.dumps(document(routes), indent=1, ensure_ascii=False) + "\n").encode()


class _Schemas:
    """The schemas of all types that the routes name."""

    def __init__(self, routes: Sequence[Route]) -> None:
        types: dict[int, Any] = {id(each): each for each in _types(routes)}
        found, self.components = msgspec.json.schema_components(list(types.values()), ref_template=_REFERENCE)
        self._of = dict(zip(types, found, strict=True))

    def reference(self, kind: Any) -> JsonObject:
        """The schema of a type, which refers to a component."""
        return self._of[id(kind)]

    def whole(self, kind: Any) -> JsonObject:
        """The same with its fields."""
        return self.components[self.reference(kind)["$ref"].rpartition("/")[2]]


def _types(routes: Sequence[Route]) -> Iterable[Any]:
    yield Problem
    for route in routes:
        yield route.answers
        yield route.query
        if route.body is not None:
            yield route.body


def _operation(route: Route, schemas: _Schemas) -> JsonObject:
    refused = {
        "description": "Refused: nothing was done.",
        "content": {problems.MEDIA_TYPE: {"schema": schemas.reference(Problem)}},
    }
    told: JsonObject = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": ["Flink" if route.flink else "tidegate"],
        "parameters": [*_path_parameters(route), *_query_parameters(route, schemas)],
        "responses": {
            str(route.status): {
                "description": "Accepted." if route.status == 202 else "Done.",
                "content": {route.media_type: {"schema": schemas.reference(route.answers)}},
            },
            "default": refused,
        },
    }
    if route.body is not None:
        told["requestBody"] = {"content": {"application/json": {"schema": schemas.reference(route.body)}}}
    if route.access is Access.ACT:
        told["security"] = [{"token": []}]
    return told


def _operation_id(route: Route) -> str:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", route.path) if word]
    return "_".join([route.method.value.lower(), *words])


def _path_parameters(route: Route) -> list[JsonObject]:
    return [
        {"name": name, "in": "path", "required": True, "description": _TOLD[name], "schema": {"type": "string"}}
        for name in _PARTS.findall(route.path)
    ]


def _query_parameters(route: Route, schemas: _Schemas) -> list[JsonObject]:
    whole = schemas.whole(route.query)
    required = whole.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in whole.get("properties", {}).items()
    ]


def routes_table(routes: Sequence[Route]) -> str:
    """For docs/reference/rest.md."""
    rows = [
        f"| `{route.method.value} {route.path}` | {route.summary} | {'token' if route.access is Access.ACT else ''} |"
        for route in routes
    ]
    return "\n".join(["| route | what | |", "|---|---|---|", *rows])
