"""How long a job under `tidegate run` gives nothing: after `kill -9` of its driver, and after a failed epoch.

The restart strategy is fixed-delay with the pause that the default strategy makes first, one second; it is part of the
time. The default one would make longer pauses from the second failure on. The state is of 10 MB, in RocksDB.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import functions as F

from bench.figures import Better, Figure
from bench.job_program import BROKEN, COUNT_BYTES, FAILED
from bench.job_run import JobRun, newest
from bench.session import shared_session
from tidegate.operate.failures import read_failures

_KEYS, _QUICK_KEYS = 100_000, 1_000
_STATE_BYTES = 10_000_000
_EPOCHS_BETWEEN = 10
_OPTIONS = ["-D", "restart.strategy=fixed-delay", "-D", "restart.fixed_delay.attempts=1000"]


@dataclass(frozen=True, slots=True)
class Strike:
    """What befalls the job. `strike` gives when it did, in seconds since 1970."""

    what: str
    goal_seconds: float
    strike: Callable[[JobRun], float]
    arguments: tuple[str, ...] = ()
    keeps_driver: bool = False
    options: tuple[str, ...] = ()
    before: Callable[[JobRun], None] = lambda _job: None
    """Waits for what the strike needs."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Seconds from the strike: until the supervisor has decided on a restart (behind the end of the dead driver's JVM),
    until the new run begins, until its first epoch is done."""

    decided: float
    begun: float
    done: float


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The median time until a new epoch is done, and the size of the state meanwhile."""
    strike, keys = STRIKES[name], _QUICK_KEYS if quick else _KEYS
    outages: list[Outage] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        with JobRun(Path(folder), str(keys), *strike.arguments, options=[*_OPTIONS, *strike.options]) as job:
            for _ in range(rounds):
                job.wait_for_done(newest(job.done()) + _EPOCHS_BETWEEN)
                strike.before(job)
                outages.append(_out_of_service(job, strike))
            job.stop()
        state_bytes = _bytes_of_state(job.query / "spark")
    return [
        Figure(
            name=name,
            what=f"{strike.what} until a new epoch is done, a pause of 1 s (fixed-delay) in it",
            value=round(median(outage.done for outage in outages), 2),
            unit="s",
            better=Better.LOWER,
            goal=strike.goal_seconds,
            samples={
                "tidegate s": [round(outage.done, 2) for outage in outages],
                "tidegate s until the supervisor has decided": [round(outage.decided, 2) for outage in outages],
                "tidegate s until the new run begins": [round(outage.begun, 2) for outage in outages],
            },
        ),
        Figure(
            name=f"{name}-state",
            what="state at that time in RocksDB: bytes of its keys and values, by Spark's reader of state",
            value=round(state_bytes / 1e6, 2),
            unit="MB",
            better=Better.HIGHER,
            goal=None if quick else _STATE_BYTES / 1e6,
        ),
    ]


def _out_of_service(job: JobRun, strike: Strike) -> Outage:
    run, driver = job.run(), job.driver()
    at = strike.strike(job)
    again = job.again(run)
    decided_at = read_failures(job.folder)[0].at
    if (job.driver() == driver) is not strike.keeps_driver:
        raise RuntimeError("the driver was " + ("started again" if strike.keeps_driver else "not killed"))
    return Outage(decided=decided_at - at, begun=again.begun_at - at, done=again.done_at - at)


def _fail_an_epoch(job: JobRun) -> float:
    failed = job.place / FAILED
    failed.unlink(missing_ok=True)
    (job.place / BROKEN).touch()
    job.wait(failed.exists, "an epoch that fails")
    return failed.stat().st_ctime


def _bytes_of_state(checkpoint: Path) -> int:
    """Of an ended job. A key is its text, a value the count."""
    with shared_session() as session:  # it reads state in the format of tidegate's queries
        keys = session.read.format("statestore").load(str(checkpoint)).select("key.*").toDF("k")
        found = keys.agg(F.sum(F.length("k") + F.lit(COUNT_BYTES)).alias("bytes")).collect()
        return int(found[0]["bytes"])


STRIKES: Mapping[str, Strike] = {
    "job-restart": Strike("from kill -9 of the driver", 9.0, JobRun.kill_driver),
    "job-restart-standby": Strike(
        "from kill -9 of the driver, a standby ready,",
        4.0,
        JobRun.kill_driver,
        options=("-D", "restart.standby=true"),
        before=JobRun.wait_for_standby,
    ),
    "job-query-restart": Strike(
        "from a failed epoch, Spark's session kept,", 1.5, _fail_an_epoch, ("breakable",), keeps_driver=True
    ),
}
