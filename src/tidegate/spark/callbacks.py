"""Spark's calls of this process: each epoch is one, and somebody must hear it."""

from __future__ import annotations

import logging
import select
import socket
import threading
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tidegate.core.errors import Code, TidegateError
from tidegate.spark.epoch_watch import EpochRefused


def listen_to(session: SparkSession) -> None:
    """Open the socket on which Spark calls this process, as early as a job knows its session."""
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    ensure_callback_server_started(gateway)
    logging.getLogger(_TELLS_OF_ERRORS).addFilter(is_no_refused_epoch)  # once: the same filter is not added again
    refuse_if_unheard(gateway._callback_server.server_socket)


def is_no_refused_epoch(record: logging.LogRecord) -> bool:
    """Whether a record of Py4J's is to be logged. It tells, with a traceback, of what leaves a call of Spark's: for an
    epoch that has failed that is a short word alone, and the error itself ends the run."""
    return not (record.exc_info and isinstance(record.exc_info[1], EpochRefused))


_TELLS_OF_ERRORS = "py4j.clientserver"


def refuse_if_deaf(session: SparkSession) -> None:
    """Refuse to start a query when the thread that hears Spark's calls has ended: its first epoch would wait for ever.

    Py4J's thread ends when it cannot take one connection, mostly for want of a file number, and nobody starts it anew.
    """
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    thread: threading.Thread | None = gateway._callback_server.thread
    if thread is None or not thread.is_alive():
        raise TidegateError(
            Code.PROCESS_SPENT,
            expected="a thread that hears Spark's calls",
            found="it has ended: it could not take a connection, perhaps because too many files were open",
            where="this process",
            next_step="start the program again: a new process hears; see how many files it opens, and may (ulimit -n)",
        )


def refuse_if_unheard(server: socket.socket) -> None:
    """Refuse a socket at which nobody waits: Spark would call, and its first epoch wait for ever.

    Py4J waits with select(2), which knows the file numbers below FD_SETSIZE (1024) alone. Where so many files are open
    already, the socket gets a higher one, and the thread that was to wait there ends without a word.
    """
    try:
        select.select([server], [], [], 0)
    except ValueError:
        raise TidegateError(
            Code.TOO_MANY_FILES,
            expected="fewer than about 1000 open files when a job gets its Spark session",
            found=f"file number {server.fileno()} for the socket on which Spark calls the program",
            where="this process",
        ) from None
