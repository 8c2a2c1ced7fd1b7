"""What a restart can cure: every code has its answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.cli.exits import Exit, exit_of
from tidegate.core.errors import Code
from tidegate.core.next_steps import Remedy
from tidegate.supervise.cures import BY_REMEDY, SURROUNDINGS, Cure, can_restart, cure_of, refuses


def test_every_code_has_an_answer():
    assert set(BY_REMEDY) == set(Remedy)
    assert {code for code in Code if code.remedy is Remedy.SURROUNDINGS} == set(SURROUNDINGS)
    assert all(isinstance(cure_of([code]), Cure) for code in Code)


@pytest.mark.parametrize("code", [code for code in Code if code.remedy in (Remedy.PROGRAM, Remedy.DECIDE)])
def test_what_somebody_has_to_change_or_decide_is_never_started_again(code: Code):
    assert not can_restart([code], has_run=True)


@pytest.mark.parametrize("code", [code for code in Code if code.remedy is Remedy.RESTART])
def test_what_a_start_cures_is_started_again(code: Code):
    assert can_restart([code], has_run=False)


@pytest.mark.parametrize("code", [Code.KAFKA_UNREACHABLE, Code.SINK_UNAVAILABLE, Code.DRIVER_ALIVE])
def test_what_goes_by_waiting_is_waited_for_at_the_first_start_too(code: Code):
    assert can_restart([code], has_run=False)


@pytest.mark.parametrize("codes", [[], [Code.PROGRAM_FAILED], [Code.STORAGE_UNUSABLE], [Code.STORAGE_FULL]])
def test_what_may_be_a_mistake_is_started_again_only_in_a_job_that_has_run(codes: list[Code]):
    assert not can_restart(codes, has_run=False)
    assert can_restart(codes, has_run=True)


def test_whatever_makes_a_restore_impossible_ends_the_start_as_it_ends_the_check():
    """The codes are those of the table in docs/savepoints.md; but a disk that nobody can write to is to be mended."""
    text = (Path(__file__).parents[2] / "docs/savepoints.md").read_text("utf-8")
    table = text.partition("| what makes it impossible |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(TG-[A-Z-]+)`", table))
    codes = [code for code in Code if code.label in named - {Code.STORAGE_UNUSABLE.label}]
    assert len(codes) > 10
    assert {code: exit_of(code) for code in codes} == dict.fromkeys(codes, Exit.REFUSED)
    assert [code for code in codes if not (refuses(code) or code is Code.DRIVER_ALIVE)] == []
    assert not any(can_restart([code], has_run=True) for code in codes if refuses(code))


def test_one_incurable_error_of_several_decides():
    assert can_restart([Code.KAFKA_UNREACHABLE, Code.SINK_UNAVAILABLE], has_run=False)
    assert not can_restart([Code.KAFKA_UNREACHABLE, Code.SCHEMA_MISMATCH], has_run=True)


@pytest.mark.parametrize("has_run", [False, True])
def test_who_has_the_job_for_a_minute_keeps_it(has_run: bool):
    """A dying driver of ours has ended by then, whether or not the job has run here before."""
    assert can_restart([Code.DRIVER_ALIVE], has_run=has_run, seconds_taken=59.0)
    assert not can_restart([Code.DRIVER_ALIVE], has_run=has_run, seconds_taken=60.0)
