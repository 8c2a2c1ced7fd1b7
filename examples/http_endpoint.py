"""Orders to an HTTP endpoint, each once: a write-ahead sink for a system that knows no transactions.

    python examples/http_endpoint.py --serve      # one terminal: an endpoint that keeps orders in endpoint.db
    python examples/http_endpoint.py              # another one: kill either (kill -9), and start it again
    sqlite3 endpoint.db 'SELECT count(*), count(DISTINCT id) FROM orders'       # a third one: the same number twice

The rows of an epoch wait in the checkpoint until the epoch is decided. Then one POST sends them, with the epoch's key
in the header `Idempotency-Key`. The endpoint stores the key together with the rows, and answers a second POST of the
same key without storing it. Each order is stored once when an answer is lost, when a driver dies before it has read
one, and when a driver was paused while its successor wrote. See docs/write-your-own-sink.md.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable
from contextlib import closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from tidegate import FileSource, Job, RateSource, WriteAheadSink
from tidegate.sink_api import Committable, DecidedEpoch, Evidence, Shows

ADDRESS = ("127.0.0.1", 8085)
_NOT_NOW = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_SECONDS = 30.0


class HttpSink(WriteAheadSink):
    """One POST an epoch. `url`: of the collection; `url/KEY` tells whether a write has arrived."""

    shows: ClassVar[Shows] = Shows.ONCE  # the key is stored together with the rows

    def __init__(self, uid: str, url: str) -> None:
        super().__init__(uid)
        self.url = url

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        rows = [json.dumps(row, default=str) for batch in batches for row in batch.to_pylist()]
        headers = {"Idempotency-Key": epoch.key, "Content-Type": "application/x-ndjson"}
        request = urllib.request.Request(self.url, "\n".join(rows).encode(), headers, method="POST")
        try:
            urllib.request.urlopen(request, timeout=_SECONDS).close()
        except urllib.error.HTTPError as error:
            if error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in _NOT_NOW:
                raise ValueError(f"{self.url} refuses epoch {epoch.number}: {error.code} {error.reason}") from None
            raise  # an OSError, as a connection that fails: the call is repeated

    def confirmed(self, epoch: DecidedEpoch) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/{epoch.key}", timeout=_SECONDS).close()
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.UNKNOWN  # the endpoint knows epochs, not the transactions of single tasks


class Endpoint(BaseHTTPRequestHandler):
    """POST /orders stores each key once; GET /orders/KEY tells whether it is stored."""

    database = Path("endpoint.db")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with closing(sqlite3.connect(self.database, timeout=_SECONDS)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY)")
            database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER, price INTEGER)")
            new = database.execute("INSERT OR IGNORE INTO keys VALUES (?)", [self.headers["Idempotency-Key"]]).rowcount
            if new:
                database.executemany("INSERT INTO orders VALUES (:id, :price)", map(json.loads, body.splitlines()))
        self.stored()
        self._answer(HTTPStatus.CREATED if new else HTTPStatus.OK)

    def do_GET(self) -> None:
        with closing(sqlite3.connect(self.database, timeout=_SECONDS)) as database:
            tables = database.execute("SELECT name FROM sqlite_master WHERE name = 'keys'").fetchall()
            key = self.path.rpartition("/")[2]
            found = tables and database.execute("SELECT 1 FROM keys WHERE key = ?", [key]).fetchone()
        self._answer(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND)

    def stored(self) -> None:
        """The write is on disk, and not answered yet."""

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not logged."""

    def _answer(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def declare(rows: RateSource | FileSource, folder: Path, url: str) -> Job:
    """The job: one order for each row."""
    job = Job("orders", checkpointing_dir=str(folder / ".tidegate"), checkpointing_interval="1s")
    orders = job.source("rows", rows).selectExpr("value AS id", "value % 97 AS price")
    job.query("send", orders, sinks=[HttpSink("endpoint", url)])
    return job


def main() -> None:
    if "--serve" in sys.argv[1:]:
        with ThreadingHTTPServer(ADDRESS, Endpoint) as server:
            server.serve_forever()
    declare(RateSource(rows_per_second=100), Path(), "http://{}:{}/orders".format(*ADDRESS)).run()


if __name__ == "__main__":
    main()
