"""The calls of Spark into this process. Each epoch is one, so a thread must receive them."""

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
    """True if a record of Py4J is to be logged. Py4J logs, with a traceback, each exception of a call from Spark. For a
    failed epoch that is only a short word; the error itself ends the run.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], EpochRefused))


_TELLS_OF_ERRORS = "py4j.clientserver"


def refuse_if_deaf(session: SparkSession) -> None:
    """Refuse to start a query after the thread that receives Spark's calls has ended: its first epoch would wait for
    ever.

    Py4J's thread ends when it cannot accept a connection, mostly because of too many open files, and is never
    restarted.
    """
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    thread: threading.Thread | None = gateway._callback_server.thread
    if thread is None or not thread.is_alive():
        raise TidegateError(
            Code.PROCESS_SPENT,
            expected="a thread that receives Spark's calls",
            found="it has ended: it could not take a connection, perhaps because too many files were open",
            where="this process",
            next_step="start the program again, in a new process; check its open files and their limit (ulimit -n)",
        )


def refuse_if_unheard(server: socket.socket) -> None:
    """Refuse a socket without a waiting thread: Spark would call, and its first epoch would wait for ever.

    Py4J waits with select(2), which supports only file numbers below FD_SETSIZE (1024). If so many files are already
    open, the socket gets a higher number, and its thread ends without a message.
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
