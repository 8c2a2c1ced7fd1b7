"""Every command: its module, and its text in the overview. A call loads only the modules that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """The module of a command or group of commands, and the first sentences of its help.

    A command without them is hidden. `options`: typer's options for it, and their module.
    """

    place: str
    summary: str = ""
    options: str = ""


COMMANDS: Mapping[str, CommandEntry] = {
    "run": CommandEntry(
        "tidegate.cli.run:run",
        "Run a program's job and keep it alive: after a failure it is restarted by the rules of `restart.strategy`.",
        options="tidegate.cli.run:RUN",
    ),
    "list": CommandEntry(
        "tidegate.cli.jobs:list_jobs",
        "List the jobs in a folder: those that run, and those that failed, died or cannot be read.",
    ),
    "info": CommandEntry(
        "tidegate.cli.jobs:info",
        "Show the status of a job: its state, its driver, its queries, its sources, its settings.",
    ),
    "history": CommandEntry(
        "tidegate.cli.jobs:history", "Show the checkpoints, the failures and the milestones of a job, newest first."
    ),
    "ui": CommandEntry(
        "tidegate.cli.ui:ui", "Serve a page and a REST interface for all jobs of a folder, until Ctrl-C or SIGTERM."
    ),
    "checkpoint": CommandEntry(
        "tidegate.cli.control:checkpoint",
        "Take a checkpoint: wait until all rows that a running job has read so far are visible. The limit is 10 min by"
        " default.",
    ),
    "savepoint": CommandEntry(
        "tidegate.cli.savepoint:savepoint",
        "Take, list, inspect, verify, compare, move, check, dispose of savepoints; `savepoint JOB [DIR]` takes one.",
    ),
    "stop": CommandEntry(
        "tidegate.cli.control:stop",
        "Stop a running job after its current epoch is done. The next start resumes after this epoch.",
        options="tidegate.cli.control:STOP",
    ),
    "cancel": CommandEntry(
        "tidegate.cli.control:cancel",
        "End a running job at once: undecided epochs are aborted, and the next start replays their input.",
        options="tidegate.cli.control:CANCEL",
    ),
    "forget": CommandEntry(
        "tidegate.cli.forget:forget",
        "Remove the checkpoints of a job that does not run, and its data in the sinks: the next start begins anew.",
    ),
    "txn": CommandEntry(
        "tidegate.cli.txn:txn",
        "Open transactions of a job: list them, commit or abort one.",
    ),
    "check": CommandEntry(
        "tidegate.cli.check:check",
        "Check all requirements of a job: one line each, OK, WARN or FAILED, with the measured value.",
    ),
    "pack": CommandEntry(
        "tidegate.cli.pack:pack",
        "Write one archive with tidegate and its packages, for executors whose Python has none of them.",
    ),
    "config": CommandEntry(
        "tidegate.cli.config:config", "The settings: their values here, the place that set each, and the reference."
    ),
    "warm-up": CommandEntry(
        "tidegate.cli.warm_up:warm_up",
        "Make an archive of Spark's classes. Later starts of jobs are faster, because they map it into memory.",
    ),
    "demo": CommandEntry(
        "tidegate.cli.demo:demo",
        "Count words in text that keeps arriving, kill the driver, restart it, compare every record.",
    ),
    "broker": CommandEntry(
        "tidegate.cli.broker:broker",
        "A Kafka broker for experiments: on this machine only, in a folder, in the background.",
    ),
    "run-application": CommandEntry("tidegate.cli.run:run", options="tidegate.cli.run:RUN_APPLICATION"),
}
"""In the order of the help."""
