"""Spark's thread of a run, from its start to its end: stopped once, cut off if an epoch takes too long.

It can write `commits/N` until it has ended, so the run releases nothing before. If it cannot be stopped, the run is
stuck, and only the end of the process ends it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.core.tolerance import EpochFault
from tidegate.spark.epoch_watch import EpochPhase
from tidegate.spark.no_data import DueEpoch, no_data_epochs
from tidegate.spark.overdue_note import OverdueNote
from tidegate.spark.plan_check import refused_by_spark
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.run_state import OUT_OF_REACH, START_WAS_LOST, RunEvent
from tidegate.spark.session import query_settings
from tidegate.spark.shared_state import FailedEpoch, SharedState
from tidegate.spark.stream import JVM_IS_GONE, RunningStream, is_gone

_LOST_START_SECONDS = 10.0


class StreamThread:
    """Spark's stream thread of one run: starts it, interrupts it and stops it.

    `keep_overdue`: records durably an epoch that was cut off, and its time limit in seconds.
    """

    def __init__(
        self, plan: QueryPlan, session: SparkSession, shared: SharedState, keep_overdue: Callable[[int, float], None]
    ) -> None:
        self._plan = plan
        self._session = session
        self._shared = shared
        self.overdue_note = OverdueNote(keep_overdue, shared.leave)
        self._known = threading.Event()
        self._stopper: threading.Thread | None = None
        self.stream: RunningStream | None = None
        """None before the start, and for good if the start failed or was lost."""

    def start(self, writer: DataStreamWriter, name: str, due: DueEpoch) -> None:
        """Start Spark's query, with this name."""
        query: StreamingQuery | None = None
        failed = RunEvent.START_REFUSED
        try:
            no_data = no_data_epochs(self._session, due)
            with query_settings(self._session, self._plan.conf), no_data:
                query = writer.start()
            self.stream = RunningStream(query, self._jvm)
        except BaseException as error:
            if query is not None or not isinstance(error, (PySparkException, Py4JJavaError)):
                failed = RunEvent.START_LOST
            if isinstance(error, PySparkException) and query is None:
                raise refused_by_spark(error, str(self._plan.query)) from error
            raise
        finally:
            if self.stream is None:
                self._shared.happens(failed)
            self._known.set()
            if self.stream is None:
                self._stop_by_name(name)

    def await_known(self) -> None:
        """Wait until Spark's start of the query has returned. Called in an epoch, which Spark may begin before that."""
        self._known.wait()

    def has_ended(self) -> bool:
        """True if Spark's stream thread has ended, or was not started."""
        return self.stream is None or self.stream.has_ended()

    def has_logged(self) -> bool:
        """True if Spark has written the entry in `commits` of the newest epoch."""
        return self.stream is not None and self.stream.has_logged()

    def may_live(self) -> bool:
        """True if Spark's thread of this run is possibly still alive. If the run was given up as stuck, this stays True
        until the process ends.
        """
        state = self._shared.state
        if state in OUT_OF_REACH:
            return True
        if self.stream is None:
            return state in START_WAS_LOST and not is_gone(self._jvm)
        return not self.stream.has_ended()

    def cut_if_overdue(self) -> bool:
        """Interrupt the current epoch if it takes longer than its time limit. The input of the epoch is then replayed.

        Returns True if the epoch was interrupted, now or by an earlier call.
        """
        with self._shared.changed:
            watch = self._shared.watch
            epoch = watch.cut_if_overdue()
            if epoch is not None:
                self._shared.failed = FailedEpoch(epoch, EpochFault.TIMEOUT, in_computing=not watch.was_computed)
                self._shared.leave(watch.timeout_error(epoch, self._plan.query))
                self.overdue_note.begin(epoch, watch.seconds)
            return watch.phase is EpochPhase.CUT

    def cancel_tasks(self) -> None:
        """Cancel the tasks of an epoch that was cut off, repeatedly: it may just be starting them. Not by Spark's
        `stop`, which also interrupts the stream thread.
        """
        if self.stream is not None:
            self._session.sparkContext.cancelJobGroup(str(self.stream.query.runId))

    def stop(self) -> None:
        """Request Spark to stop the query, once, in a thread: Spark's `stop` waits for the stream thread without a
        limit.
        """
        if self.stream is None or self._stopper is not None:
            return
        with self._shared.changed:
            self._shared.watch.end()
        ask = partial(self._ask_to_stop, self.stream.query)
        self._stopper = threading.Thread(target=ask, name="tidegate-stopper", daemon=True)
        self._stopper.start()

    def refuse_if_stuck(self) -> None:
        """Raise if Spark's stream thread should have ended long ago."""
        with self._shared.changed:
            if self._shared.watch.is_stuck():
                self._shared.happens(RunEvent.THREAD_STUCK)
                raise self._shared.watch.stuck_error(str(self._plan.query))

    def await_end(self) -> None:
        """Wait until Spark's stream thread has ended, and then the thread that called Spark's `stop`.

        Raises if the stream thread is stuck.
        """
        try:
            while self.stream is not None and not self.stream.await_end(timeout_seconds=0.2):
                self.refuse_if_stuck()
                if self._shared.watch.phase is EpochPhase.CUT:
                    self.cancel_tasks()
        finally:
            self._shared.happens(RunEvent.STREAM_OVER)
        if self._stopper is not None:
            self._stopper.join()

    def failure(self) -> BaseException | None:
        """The error that ended Spark's query; None if its end was requested."""
        if self._shared.is_to_end or self.stream is None:
            return None
        return self.stream.query.exception()

    def thrown(self) -> Any:
        """The Java throwable that ended Spark's query; None if there is none."""
        return None if self.stream is None else self.stream.thrown()

    def _ask_to_stop(self, query: StreamingQuery) -> None:
        """Only the end of the stream thread ends the run, independent of Spark's answers. A new thread opens its own
        connection, which raises OSError if the JVM is dead.
        """
        try:
            query.stop()
        except (PySparkException, Py4JError, OSError) as error:
            self._shared.leave(error)

    def _stop_by_name(self, name: str) -> None:
        """Stop the query with this name if Spark has started it although the call to start it failed.

        The run has changed its state before, so that it refuses each epoch of such a query until the query has stopped.
        """
        try:
            started = [query for query in self._session.streams.active if query.name == name]
        except JVM_IS_GONE:  # and the query with it: the error of the start is raised
            return
        for query in started:
            stopper = threading.Thread(target=partial(self._ask_to_stop, query), daemon=True)
            stopper.start()
            stopper.join(_LOST_START_SECONDS)

    @property
    def _jvm(self) -> Any:
        return self._session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
