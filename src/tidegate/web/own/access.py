"""What a caller may do: the page asks before it offers anything."""

from __future__ import annotations

from tidegate.web.routing import RouteRequest
from tidegate.web.shapes import Shape


class AccessShape(Shape, frozen=True, kw_only=True):
    """`acting`: "token" if actions need it, "refused" if every action is refused. `programs`: whether programs may be
    started from folders that the operator has allowed."""

    acting: str
    may_act: bool
    programs: bool


def get_access(asked: RouteRequest) -> AccessShape:
    """`GET /access`."""
    return AccessShape(acting=asked.acting.value, may_act=asked.may_act, programs=bool(asked.site.programs))
