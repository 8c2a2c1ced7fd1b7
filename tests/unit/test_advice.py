"""Advice waits until a job has begun well."""

from __future__ import annotations

import logging

import pytest

from tidegate.core.happenings import EpochDone
from tidegate.spark.advice import Advice


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_it_is_said_once_behind_the_first_epoch_of_this_start(caplog: pytest.LogCaptureFixture):
    advice = Advice(["one", "two"])
    advice.happened("query", 0, EpochDone(4, 1))  # what recovery has finished
    assert said(caplog) == []
    for epoch in (5, 6):
        advice.happened("query", 1, EpochDone(epoch, 1))
    advice.ended(None)
    assert said(caplog) == ["one", "two"]


def test_a_job_that_ends_well_without_an_epoch_says_it_at_its_end(caplog: pytest.LogCaptureFixture):
    Advice(["one"]).ended(None)
    assert said(caplog) == ["one"]


def test_a_start_that_fails_says_nothing_of_it(caplog: pytest.LogCaptureFixture):
    Advice(["one"]).ended(ValueError())
    assert said(caplog) == []
