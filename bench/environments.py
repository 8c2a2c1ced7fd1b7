"""The systems that tidegate is compared with, each in a virtual environment of its own: they want other versions of
libraries than tidegate."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.machine.jars import cache_folder


@dataclass(frozen=True, slots=True)
class Environment:
    """One of them.

    `package`: what pip installs, with its extras. `folder`: its name in the cache folder. `variable`: the environment
    variable that names another place.
    """

    title: str
    package: str
    version: str
    folder: str
    variable: str

    def place(self) -> Path:
        """Where it is, or would be: in the folder that has the brokers' jars, or what its variable names."""
        return Path(os.environ.get(self.variable) or cache_folder() / self.folder).absolute()

    def python(self) -> Path:
        """The Python that has it, where it is installed."""
        return self.place() / "bin" / "python"

    def installed_version(self) -> str | None:
        """Which version is there, if any."""
        distribution = self.package.partition("[")[0].replace("-", "_")
        for folder in self.place().glob(f"lib/python*/site-packages/{distribution}-*.dist-info"):
            return folder.name.removesuffix(".dist-info").rpartition("-")[2]
        return None

    def how_to_install(self) -> str:
        """The command that makes the environment, with a Python that all of them work with."""
        place = self.place()
        return f"python3.11 -m venv {place} && {place}/bin/pip install '{self.package}=={self.version}'"


FLINK = Environment("PyFlink", "apache-flink", "2.2.1", "flink", "TIDEGATE_BENCH_FLINK")
QUIX = Environment("Quix Streams", "quixstreams", "3.28.1", "quix", "TIDEGATE_BENCH_QUIX")
BYTEWAX = Environment("Bytewax", "bytewax[kafka]", "0.21.1", "bytewax", "TIDEGATE_BENCH_BYTEWAX")
ENVIRONMENTS: Sequence[Environment] = (FLINK, QUIX, BYTEWAX)
