"""What no file of the project may hold."""

from __future__ import annotations

import re

from tests.house.repository import ROOT, project_files, relative

MACHINE_PATH = re.compile(r"(?<![\w.}$~*-])/(?:root|home|Users|work|workspace)/\w")
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|repo1?\.maven|maven\.apache|registry\.npmjs|deb\.debian|archive\.ubuntu"
)


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{relative(path)}:{number}: {line.strip()[:200]}"
        for path in project_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_path_of_a_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_no_host_of_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


def test_the_lock_names_no_place_to_load_from() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text(encoding="utf-8")
