"""Settings: what each place may say, which wins, and what is refused."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.measures import modules_below
from tests.house.repository import ROOT
from tidegate.core.errors import Code, TidegateError
from tidegate.settings.config import SETTINGS
from tidegate.settings.given import CONFIG_VARIABLE, OVERRIDES_VARIABLE
from tidegate.settings.reading import read_settings


def interval(value: object) -> float:
    return read_settings({"checkpointing_interval": value}, {}).checkpointing_interval


def refused(
    code: dict[str, object] | None = None, environment: dict[str, str] | None = None, overrides: list[str] | None = None
) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        read_settings(code or {}, environment or {}, overrides or [])
    return caught.value


def test_defaults() -> None:
    settings = read_settings({}, {"PATH": "x", "HOME": "y"})
    assert settings.checkpointing_dir == "./.tidegate"
    assert settings.checkpointing_interval == 10.0
    assert settings.origins == {}
    assert {setting.name.replace(".", "_") for setting in SETTINGS.values()} == set(SETTINGS)


def test_a_later_place_wins_and_is_remembered() -> None:
    code = {"checkpointing_interval": "1s", "checkpointing_dir": "code"}
    environment = {"TIDEGATE_CHECKPOINTING_INTERVAL": "2s"}
    settings = read_settings(code, environment)
    assert settings.checkpointing_interval == 2.0
    assert str(settings.origins["checkpointing.interval"]) == "environment: TIDEGATE_CHECKPOINTING_INTERVAL"
    assert settings.checkpointing_dir == "code"
    assert str(settings.origins["checkpointing.dir"]) == "program: checkpointing_dir"
    settings = read_settings(code, environment, ["checkpointing.interval=3s", "checkpointing.interval=4s"])
    assert settings.checkpointing_interval == 4.0
    assert str(settings.origins["checkpointing.interval"]) == "-D: checkpointing.interval"


@pytest.mark.parametrize("name", ["checkpointing.interval", "checkpointing-interval", "Checkpointing_Interval"])
def test_spellings_of_a_name(name: str) -> None:
    assert read_settings({name: "3s"}, {}).checkpointing_interval == 3.0
    assert read_settings({}, {}, [f"{name}=3s"]).checkpointing_interval == 3.0


def test_the_keys_of_flink() -> None:
    flink = {"execution.checkpointing.interval": "10 s", "state.checkpoints.dir": "file:///data/checkpoints"}
    settings = read_settings(flink, {})
    assert settings.checkpointing_interval == 10.0
    assert settings.checkpointing_dir == "/data/checkpoints"
    assert read_settings({}, {}, ["execution.checkpointing.dir=a=b"]).checkpointing_dir == "a=b"


@pytest.mark.parametrize("value", ["30000", 30000, "1.5", "0.25"])
def test_a_bare_number_under_a_key_of_flink_is_not_guessed(value: object) -> None:
    error = refused({"execution.checkpointing.interval": value})
    assert error.code == Code.SETTING_VALUE.label
    assert "milliseconds" in error.found
    assert error.next_step == "write the unit"


def test_zero_is_the_same_in_every_unit() -> None:
    assert read_settings({"execution.checkpointing.interval": 0}, {}).checkpointing_interval == 0.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("500ms", 0.5),
        ("1s", 1.0),
        (" 10 min ", 600.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("1.5s", 1.5),
        ("7", 7.0),
        (7, 7.0),
        (0.25, 0.25),
        (0, 0.0),
        ("0", 0.0),
    ],
)
def test_durations(value: object, seconds: float) -> None:
    assert interval(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", ["", "s", "1 fortnight", "-1s", -1, "1s 2s", True, None, float("nan"), float("inf"), "1e3", [], "1,5s"]
)
def test_what_is_no_duration(value: object) -> None:
    error = refused({"checkpointing_interval": value})
    assert error.code == Code.SETTING_VALUE.label
    assert repr(value) in error.found


def test_folders() -> None:
    assert read_settings({"checkpointing_dir": Path("a") / "b"}, {}).checkpointing_dir == "a/b"


@pytest.mark.parametrize(
    "value", ["", " ", "ftp://host/x", "s3://key:secret@bucket/x", "file://host/x", "a\0b", 3, b"x", None]
)
def test_what_is_no_folder(value: object) -> None:
    assert refused({"checkpointing_dir": value}).code == Code.SETTING_VALUE.label


def test_an_unknown_name_gets_the_nearest_known_one() -> None:
    error = refused({}, {"TIDEGATE_CHECKPOINTING_INTERVALL": "1s"})
    assert error.code == Code.SETTING_UNKNOWN.label
    assert error.next_step == "did you mean checkpointing.interval?"
    assert refused({"execution.checkpointing.intervals": 1}).next_step == "did you mean checkpointing.interval?"
    assert refused({"zzz": 1}).next_step.startswith("leave it out, or take one of")


def test_variables_of_tidegate_that_are_no_settings() -> None:
    read_settings(
        {}, {"TIDEGATE_TESTING": "1", "TIDEGATE_FAILPOINTS": "x", "TIDEGATE_SEED": "0", "TIDEGATE_PLACE": "/disk"}
    )


def test_all_violations_at_once() -> None:
    error = refused({"chekpointing_dir": "a"}, {"TIDEGATE_CHECKPOINTING_INTERVAL": "soon"}, ["checkpointing.dir"])
    assert error.code == Code.START_REFUSED.label
    assert [each.code for each in error.violations] == [
        Code.SETTING_UNKNOWN.label,
        Code.SETTING_VALUE.label,
        Code.SETTING_VALUE.label,
    ]


def test_two_names_for_one_setting_in_one_place() -> None:
    error = refused({"checkpointing.interval": "1s", "execution.checkpointing.interval": "2s"})
    assert "checkpointing.interval and execution.checkpointing.interval" in error.found


def test_every_variable_of_the_environment_that_the_code_names_is_known() -> None:
    """One that is not ends every start that it is handed to, as an unknown setting."""
    named = {
        node.value
        for module in modules_below(ROOT / "src")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"TIDEGATE_[A-Z]+(_[A-Z]+)*", node.value)
    }
    unknown: list[str] = []
    for name in named - {OVERRIDES_VARIABLE, CONFIG_VARIABLE}:
        try:
            read_settings({}, {name: ""})
        except TidegateError as error:
            unknown += [name] if error.code == "TG-SETTING-UNKNOWN" else []
    assert len(named) > 15
    assert unknown == []
