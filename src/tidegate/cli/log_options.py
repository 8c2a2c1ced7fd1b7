"""The options of a command for the log lines."""

from __future__ import annotations

from typing import Annotated

import typer

from tidegate.logs.last_word import VERBOSE
from tidegate.logs.lines import LogFormat
from tidegate.logs.writing import FORMAT_VARIABLE, LEVEL_VARIABLE, LogLevel

LogFormatOption = Annotated[
    LogFormat,
    typer.Option("--log-format", envvar=FORMAT_VARIABLE, help="The format of log lines: for people or for programs."),
]

LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", envvar=LEVEL_VARIABLE, help="The lowest level that is written to the log.")
]

VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", help=f"Show Spark's log and all stack traces, too, as {VERBOSE}=1 in the environment."),
]


SHOWS_EVERYTHING = {VERBOSE: "1"}
"""The environment of a program with `--verbose`."""
