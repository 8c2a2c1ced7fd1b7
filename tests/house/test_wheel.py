"""The wheel, built from this tree: the package and nothing of its tests."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
import uv_build

from tests.house.repository import ROOT
from tests.house.wheel import strangers, summary


def test_the_wheel_has_no_small_world_no_simulation_and_no_planted_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    wheel = tmp_path / uv_build.build_wheel(str(tmp_path))
    assert strangers(wheel) == []
    assert "tidegate/core" in summary(wheel)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tests/unit/test_states.py", ""),
        ("tidegate/testing/world/machine.py", ""),
        ("tidegate/testing/simulation.py", ""),
        ("tidegate/sinks/planted_bug.py", ""),
        ("tidegate/testing/harness.py", ""),
        ("tidegate/core/finish.py", "def f():\n    from tests.world import machine\n"),
    ],
)
def test_test_machinery_in_a_wheel_is_found(name: str, content: str, tmp_path: Path) -> None:
    with ZipFile(tmp_path / "some.whl", "w") as archive:
        archive.writestr("tidegate/core/states.py", "import enum\n")
        archive.writestr(name, content)
    assert strangers(tmp_path / "some.whl") == [name]
