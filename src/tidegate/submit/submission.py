"""What a command line says of the cluster: options of `spark-submit` for the JVM that a driver starts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from tidegate.core.errors import Code, TidegateError
from tidegate.submit.masters import Master

SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The variable with the arguments of the JVM that Python starts."""

TOLD = "TIDEGATE_TOLD"
"""The variable of a driver inside a cluster that holds other variables, as JSON in base64: YARN writes it into a shell
script, unquoted.
"""

_SHELL = "pyspark-shell"
"""Ends these arguments: Spark's word for a JVM without a program of its own."""


class DeployMode(Enum):
    """Where the driver runs."""

    CLIENT = "client"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Submission:
    """The options of a command line. A program that names a master itself overrides `master`, as in Spark."""

    master: str = ""
    archives: str = ""
    conf: tuple[str, ...] = ()
    """Settings of Spark, `KEY=VALUE`."""

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The variable by which the driver's JVM gets the options; {} without options. Those in `given` stay."""
        options = list(self._options())
        if not options:
            return {}
        words = shlex.split(given.get(SUBMIT_ARGUMENTS, _SHELL))
        before = words[:-1] if words[-1:] == [_SHELL] else words
        return {SUBMIT_ARGUMENTS: shlex.join([*before, *options, _SHELL])}

    def _options(self) -> Iterator[str]:
        if self.master:
            yield from ("--master", self.master)
        if self.archives:
            yield from ("--archives", self.archives)
        for setting in self.conf:
            yield from ("--conf", setting)


def submission(master: str | None, mode: DeployMode, archives: str | None, conf: tuple[str, ...]) -> Submission:
    """The submission of these options. Raises OPTION_UNKNOWN for a master that Spark does not know, for a setting
    without a value, and for a deploy mode that the master does not have.
    """
    if master and Master.of(master) is Master.OTHER:
        raise _wrong("local[*], local-cluster[2,1,1024], spark://host:7077, yarn or k8s://...", master, "--master")
    for setting in conf:
        if "=" not in setting:
            raise _wrong("KEY=VALUE", setting, "--conf")
    if mode is DeployMode.CLUSTER and Master.of(master or "") is not Master.YARN:
        raise TidegateError(
            Code.OPTION_UNKNOWN,
            expected="--deploy-mode client, where the driver runs here; or --master yarn",
            found=f"--deploy-mode cluster, with master {master or 'of the program'}",
            where="--deploy-mode",
            next_step="leave it out, and run the command on a machine that stays: on other clusters Spark starts no"
            " Python driver",
        )
    return Submission(master or "", archives or "", conf)


def _wrong(expected: str, found: str, option: str) -> TidegateError:
    return TidegateError(
        Code.OPTION_UNKNOWN, expected=expected, found=found, where=option, next_step=f"give {option} such a value"
    )
