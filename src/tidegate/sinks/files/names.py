"""Names in the target of a file sink."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from tidegate.core.records import Attempt

HIDDEN = ".tidegate"
"""The folder in the target that belongs to the sinks. No reader looks into it: its name begins with a dot."""


def hidden_in(target: Path) -> Path:
    """The folder in `target` that belongs to the sinks: stages and claims."""
    return target / HIDDEN


def final_name(attempt: Attempt, suffix: str, number: int = 0) -> str:
    """The final name of a file. `unique` separates sinks and attempts that share the rest."""
    sink = attempt.sink
    # Readers treat a leading `_` or `.` as hidden, so the name keeps only plain characters of the job's name.
    job = re.sub(r"[^A-Za-z0-9]+", "-", sink.job).strip("-") or "job"
    job_id = re.sub(r"[^A-Za-z0-9]+", "-", sink.job_id)
    unique = hashlib.sha256(msgspec.json.encode(attempt, order="sorted")).hexdigest()[:12]
    numbered = f"_{number:05}" if number else ""  # `_` sorts after `.`: so the order of names is the order of rows
    return f"{job}-{job_id}-g{sink.generation}-e{attempt.epoch:012}-t{attempt.task:05}-{unique}{numbered}{suffix}"
