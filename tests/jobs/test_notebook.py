"""A job in a real notebook kernel: it shows itself, and its display lives on while other cells run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.jobs.folders import another_driver, make_job, say
from tidegate.operate.beat import JobState

_SECONDS = 60.0


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingKernelClient]:
    manager = KernelManager(connection_file=str(tmp_path_factory.mktemp("kernel") / "kernel.json"))
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=_SECONDS)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(kernel: BlockingKernelClient, code: str) -> list[dict[str, Any]]:
    """The messages of a cell until it is over."""
    messages: list[dict[str, Any]] = []
    reply = kernel.execute_interactive(code, timeout=_SECONDS, output_hook=messages.append)
    assert reply["content"]["status"] == "ok", reply["content"]
    return messages


def html_in(messages: list[dict[str, Any]]) -> list[str]:
    return [each["content"]["data"]["text/html"] for each in messages if "text/html" in each["content"].get("data", {})]


def test_a_job_in_a_cell_shows_itself(kernel: BlockingKernelClient, tmp_path: Path) -> None:
    say(make_job(tmp_path), JobState.FINISHED)
    (html,) = html_in(run(kernel, f"from tidegate import operate\noperate.open({str(tmp_path)!r}, 'job')"))
    assert "FINISHED" in html


BY_NAME = """
from tidegate import operate
shown = operate.open({storage!r}, 'job')
"""
OF_THE_PROGRAM = """
from tidegate import JobHandle
from tidegate.operate import Folder
shown = JobHandle.__new__(JobHandle)  # without Spark: what it needs to show itself
shown._folders = dict(query=Folder.of({storage!r}) / 'job/queries/query/g1')
"""


@pytest.mark.parametrize(
    "opened", [pytest.param(BY_NAME, id="by its name"), pytest.param(OF_THE_PROGRAM, id="the program's own handle")]
)
def test_a_display_lives_on_until_the_job_has_ended(kernel: BlockingKernelClient, tmp_path: Path, opened: str) -> None:
    job = make_job(tmp_path)
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + 1)
        messages = run(kernel, opened.format(storage=str(tmp_path)) + "shown.show(every_seconds=0.1)\nprint('on')")
        assert "RUNNING" in html_in(messages)[0]
        assert any(each["content"].get("text") == "on\n" for each in messages), "the cell goes on at once"
        say(job, JobState.FINISHED, process=process, at=time.time() + 2)
    shown = _updates(kernel, until="FINISHED")
    assert {each["transient"]["display_id"] for each in shown} == {_display_id(messages)}, "it replaces its own display"


def _display_id(messages: list[dict[str, Any]]) -> str:
    return next(each["content"]["transient"]["display_id"] for each in messages if each["msg_type"] == "display_data")


def _updates(kernel: BlockingKernelClient, until: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        message = kernel.get_iopub_msg(timeout=_SECONDS)
        if message["msg_type"] == "update_display_data":
            found.append(message["content"])
            if until in message["content"]["data"]["text/html"]:
                return found
    raise AssertionError(f"no display has {until}")
