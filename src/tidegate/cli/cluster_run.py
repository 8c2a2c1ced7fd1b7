"""`tidegate run --deploy-mode cluster`: submits a program to YARN, and follows its application."""

from __future__ import annotations

import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

import typer

from tidegate.cli.common import Printed, print_json
from tidegate.cli.exits import Exit
from tidegate.settings.config import Settings
from tidegate.settings.found import read_settings_file
from tidegate.submit.submission import Submission
from tidegate.submit.yarn_cluster import ApplicationNews, command_of, environment_of, news_in, settings_of

_SHOWN_LINES = 30
_SUCCEEDED = "SUCCEEDED"


def run_in_cluster(
    submission: Submission,
    program: Sequence[str],
    settings: Settings,
    environment: Mapping[str, str],
    shown: Printed,
    *,
    waits: bool,
) -> int:
    """Submit the program; show the application and its states. Returns the exit code of the command.

    `waits`: until the application has ended. Otherwise until YARN has taken it.
    """
    settings_file = read_settings_file(environment)
    with tempfile.TemporaryFile() as file:  # it has no name, so nothing of it stays if this process is killed
        given = settings_of(submission, settings, environment, waits=waits)
        file.write("".join(f"{name} {_escaped(value)}\n" for name, value in given.items()).encode())
        file.flush()
        properties = f"/dev/fd/{file.fileno()}"
        command = command_of(submission, properties, program, "" if settings_file is None else settings_file.path)
        return _followed(command, environment_of(submission, environment), shown, file.fileno(), waits=waits)


def _followed(
    command: Sequence[str], environment: Mapping[str, str], shown: Printed, properties: int, *, waits: bool
) -> int:
    """`properties`: the descriptor of the open file with Spark's settings, which the command names."""
    lines: deque[str] = deque(maxlen=_SHOWN_LINES)
    application = final = ""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=[properties],
    ) as submitting:
        for news in news_in(_remembered(submitting.stdout or (), lines)):
            application, final = news.application or application, news.final or final
            if shown is Printed.TEXT:
                _show(application, news)
        code = submitting.wait()
    ended_well = code == 0 and (final == _SUCCEEDED or not waits)
    if shown is Printed.JSON:
        print_json({"application": application, "final": final or None, "exit": code})
    elif not ended_well and not final:
        typer.echo("".join(lines), err=True, nl=False)
    return Exit.OK if ended_well else Exit.FAILED


def _show(application: str, news: ApplicationNews) -> None:
    said = f"ended: {news.final}" if news.final else news.state or "submitted"
    typer.echo(f"{application}: {said}", err=True)
    if said == "submitted":
        typer.echo(f"  what it prints: yarn logs -applicationId {application}", err=True)
        typer.echo(f"  its jobs: tidegate list -yid {application}", err=True)


def _remembered(output: Iterable[str], lines: deque[str]) -> Iterator[str]:
    for line in output:
        lines.append(line)
        yield line


def _escaped(value: str) -> str:
    """As Java reads a file of properties."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
