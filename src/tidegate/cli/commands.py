"""Every command: where it is found, and what the overview says of it. So a call loads what it uses, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """Where the function of a command, or its group of commands, stands; and the first sentences of its help.

    One without them is not shown. `options`: how typer is to treat it, and where that stands.
    """

    place: str
    summary: str = ""
    options: str = ""


COMMANDS: Mapping[str, CommandEntry] = {
    "run": CommandEntry(
        "tidegate.cli.run:run",
        "Run a program's job and keep it alive: after a failure it is started again, as `restart.strategy` says.",
        options="tidegate.cli.run:RUN",
    ),
    "list": CommandEntry(
        "tidegate.cli.jobs:list_jobs",
        "List the jobs in a folder: those that run, and those that failed, died or cannot be read.",
    ),
    "info": CommandEntry(
        "tidegate.cli.jobs:info", "Show how a job is: its state, its driver, its queries, its settings."
    ),
    "history": CommandEntry(
        "tidegate.cli.jobs:history", "Show the checkpoints of a job and what it failed with, newest first."
    ),
    "checkpoint": CommandEntry(
        "tidegate.cli.control:checkpoint",
        "Wait until everything is done that a running job has read by now, in all its sinks; 10 min unless told.",
    ),
    "savepoint": CommandEntry(
        "tidegate.cli.savepoint:savepoint",
        "Take, list, inspect, verify, compare, move, check, dispose of savepoints; `savepoint JOB [DIR]` takes one.",
    ),
    "stop": CommandEntry(
        "tidegate.cli.control:stop",
        "Stop a running job: the epoch under way is done first. The next start resumes behind it.",
        options="tidegate.cli.control:STOP",
    ),
    "cancel": CommandEntry(
        "tidegate.cli.control:cancel",
        "End a running job at once: what is undecided is aborted, and its input comes again at the next start.",
        options="tidegate.cli.control:CANCEL",
    ),
    "forget": CommandEntry(
        "tidegate.cli.forget:forget",
        "Remove the checkpoints of a job that does not run, and what its sinks keep of it: a start begins anew.",
    ),
    "txn": CommandEntry(
        "tidegate.cli.txn:txn",
        "Transactions that a job has prepared and not ended: list them, commit or abort one.",
    ),
    "check": CommandEntry(
        "tidegate.cli.check:check",
        "Try everything that a job stands on: one line each, OK, WARN or FAILED, with what was measured.",
    ),
    "config": CommandEntry(
        "tidegate.cli.config:config", "The settings: what they are here and why, and what there is."
    ),
    "warm-up": CommandEntry(
        "tidegate.cli.warm_up:warm_up",
        "Make an archive of Spark's classes, which every later start of a job maps instead of loading them.",
    ),
    "demo": CommandEntry(
        "tidegate.cli.demo:demo",
        "Count words in text that keeps arriving, kill the driver, start it again, compare every record.",
    ),
    "broker": CommandEntry(
        "tidegate.cli.broker:broker",
        "A Kafka broker for trying things out: on this machine only, in a folder, in the background.",
    ),
    "run-application": CommandEntry("tidegate.cli.run:run", options="tidegate.cli.run:RUN_APPLICATION"),
}
"""In the order of the help."""
