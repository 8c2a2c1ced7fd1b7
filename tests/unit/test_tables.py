"""Tables of the command: what can be copied out of them, and what a cell cannot do."""

from __future__ import annotations

import pytest

from tidegate.cli.tables import Column, print_table


def test_columns_stand_in_line_and_nothing_is_cut_or_padded_at_the_right(capsys: pytest.CaptureFixture[str]):
    long = "x" * 300
    print_table((Column("job"), Column("rows", number=True), Column("last")), [("a", "7", long), ("潮門", "1000", "-")])
    assert capsys.readouterr().out.splitlines() == [
        "job   rows  last",
        f"────  ────  {'─' * 300}",
        f"a        7  {long}",
        "潮門  1000  -",
    ]


def test_a_cell_stays_on_its_line_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]):
    print_table((Column("value"),), [("two\nlines\x1b[2J",)])
    assert capsys.readouterr().out.splitlines()[2:] == ["two lines [2J"]
