"""The kinds of masters that Spark runs with."""

from __future__ import annotations

import re
from enum import Enum


class Master(Enum):
    """A kind of `spark.master`. The value is what its URL begins with."""

    LOCAL = "local"
    LOCAL_CLUSTER = "local-cluster"
    STANDALONE = "spark"
    YARN = "yarn"
    KUBERNETES = "k8s"
    OTHER = ""
    """Of a cluster manager that a package brings."""

    @classmethod
    def of(cls, url: str) -> Master:
        """The kind of this `spark.master`. The options stand in brackets, the addresses behind a colon."""
        kind = re.split(r"[\[:]", url, maxsplit=1)[0]
        return cls(kind) if kind in _KINDS else cls.OTHER

    @property
    def is_this_machine(self) -> bool:
        """True if all tasks run on the driver's machine."""
        return self in {Master.LOCAL, Master.LOCAL_CLUSTER}

    @property
    def is_one_jvm(self) -> bool:
        """True if all tasks run in the driver's JVM."""
        return self is Master.LOCAL


_KINDS = {each.value for each in Master}
