"""How a strike is written down, and that the registry is closed."""

from __future__ import annotations

import pytest

from tidegate.core import effects, failpoints
from tidegate.core.errors import TidegateError
from tidegate.core.failpoints import Action, Strike, parse_strikes


def test_strikes_are_separated_by_commas() -> None:
    assert parse_strikes("prepared.before@3=crash,commit.after=hold:/some/file,,task.write=error") == [
        Strike("prepared.before", 3, Action.CRASH, ""),
        Strike("commit.after", None, Action.HOLD, "/some/file"),
        Strike("task.write", None, Action.ERROR, ""),
    ]


def test_nothing_is_no_strike() -> None:
    assert parse_strikes("") == []


@pytest.mark.parametrize(
    "text", ["nowhere.before=crash", "prepared=crash", "prepared.before=explode", "prepared.before@x=crash", "crash"]
)
def test_what_is_not_registered_is_refused(text: str) -> None:
    with pytest.raises(TidegateError) as refused:
        parse_strikes(text)
    assert refused.value.code == "TG-SETTING-VALUE"
    assert text in str(refused.value)


def test_the_point_of_every_effect_with_a_place_is_registered() -> None:
    quiet = {"read", "wait", "hesitate", "tell"}
    classes = [each for each in vars(effects).values() if isinstance(each, type) and hasattr(each, "__slots__")]
    defaults = {
        field.default
        for each in classes
        for name, field in getattr(each, "__dataclass_fields__", {}).items()
        if name == "point" and isinstance(field.default, str)
    }
    assert defaults - quiet <= set(failpoints.DRIVER_POINTS)
