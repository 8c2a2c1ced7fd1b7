"""What the measures count, in a tree of three files."""

from __future__ import annotations

from pathlib import Path

from tests.house.measures import measured
from tests.house.visits import Call, Walk, below, walked


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


def test_a_reader_turns_the_page_where_the_next_new_function_stands_in_another_file() -> None:
    calls = [
        Call("MainThread", depth, file, function)
        for depth, file, function in (
            (1, "spark/a.py", "first"),
            (2, "spark/b.py", "second"),
            (3, "spark/b.py", "<lambda>"),
            (3, "disk/durable.py", "write"),
            (3, "storages/local/storage.py", "read"),
            (2, "spark/b.py", "third"),
            (2, "spark/a.py", "fourth"),
            (2, "spark/b.py", "second"),
            (1, "spark/c.py", "afterwards"),
        )
    ]
    assert walked(calls) == Walk(visits=4, files=3, functions=5)
    assert walked(calls).returns == 1
    of_first = list(below(calls, frozenset({"first"}), "spark/"))
    assert (len(of_first), walked(of_first)) == (8, Walk(visits=3, files=2, functions=4))
    assert walked([]) == Walk(visits=0, files=0, functions=0)
