"""What the measures count, in a tree of three files."""

from __future__ import annotations

from pathlib import Path

from tests.house.measures import measured


def test_circles_long_classes_and_bools_are_counted(tmp_path: Path) -> None:
    package = tmp_path / "src" / "p"
    package.mkdir(parents=True)
    (package / "a.py").write_text("from p import b\n\ndef f(x: bool, *, y: bool = True, z: int = 0) -> bool: ...\n")
    (package / "b.py").write_text("def later():\n    from p.c import K\n")
    (package / "c.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.a\nclass K:\n" + "    x = 1\n" * 260
    )
    found = measured(tmp_path)
    assert (found.files, found.bool_parameters) == (3, 2)
    assert found.circles == (("p.a", "p.b", "p.c"),)
    assert found.long_classes == (("p.c.K", 261),)
    assert found.long_files == ()
