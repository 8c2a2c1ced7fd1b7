"""What can go wrong in the simulation, and how a fault that struck is written down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    """The closed set of faults."""

    KILL_DRIVER = "kill driver"  # Python and JVM are gone
    KILL_PYTHON = "kill python"  # the JVM goes on until it needs the Python part
    KILL_JVM = "kill jvm"  # the Python part goes on until it needs the JVM
    KILL_EXECUTOR = "kill executor"  # its task attempts are lost, the locks of its slots are free
    LOSE_TASK = "lose task"  # one attempt fails; Spark runs another one
    SPECULATE = "speculate"  # a second attempt of a running task, beside the first
    POWER_LOSS = "power loss"  # every process is gone, and of what was not synced some or all
    STALL = "stall"  # one thread stands still
    PAUSE = "pause"  # a driver stands still, or its JVM or its Python part alone
    SECOND_DRIVER = "second driver"  # a start while another driver is alive
    RESTART_RUN = "restart run"  # the run is ended from inside; the same process starts the next one
    REQUEST_LOST = "request lost"  # a commit does not reach the sink
    ANSWER_LOST = "answer lost"  # a commit is done, its answer does not come back
    REQUEST_LATE = "request late"  # a commit reaches the sink long after its driver has given up waiting
    REQUEST_TWICE = "request twice"  # a commit reaches the sink now, and once more later
    HALF_COMMIT = "half commit"  # the driver dies after the first transaction of a sink
    SINK_DOWN = "sink down"  # no sink takes anything for a while
    TIME_OUT = "time out"  # the open transactions of the Kafka-like sinks time out
    ROLL_BACK = "roll back"  # somebody aborts an open transaction or rolls a prepared branch back
    EXPIRE_IDS = "expire ids"  # transactional ids without an open transaction are forgotten
    EXPIRE_EVIDENCE = "expire evidence"  # so is the evidence in the consumer groups
    DAMAGE_LOG = "damage log"  # between two runs an entry of Spark's log is deleted, emptied or cut
    DISK_FULL = "disk full"  # nothing can be written for a while
    ERROR = "error"  # a step raises and does nothing
    ERROR_AFTER = "error after"  # a step is done, and raises
    SOURCE_BACK = "source back"  # a source names an end before its start
    NEW_GENERATION = "new generation"  # the next start opens one, after it has finished the older


AT_A_COMMIT = (
    Fault.REQUEST_LOST,
    Fault.ANSWER_LOST,
    Fault.REQUEST_LATE,
    Fault.REQUEST_TWICE,
    Fault.HALF_COMMIT,
)
"""These strike only where a commit is about to be sent."""


@dataclass(frozen=True, slots=True)
class Injection:
    """`fault` strikes at the step number `step`; `salt` settles every choice inside it."""

    step: int
    fault: Fault
    salt: int

    def __str__(self) -> str:
        return f"{self.step}:{self.fault.value}:{self.salt}"


def parse_injection(text: str) -> Injection:
    """The injection written as `step:fault:salt`; ValueError for another text."""
    step, fault, salt = text.split(":")
    return Injection(int(step), Fault(fault), int(salt))
