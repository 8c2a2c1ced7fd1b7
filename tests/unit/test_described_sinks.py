"""What a start leaves in the job's folder of its sinks: enough to open them, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.operate.sinks import FORMAT, SINKS, DescribedSink, Sinks, describe, open_sink, write_sinks
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.printing import PrintSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

SECRET = "hunter2"
OPTIONS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "ann",
    "sasl.password": SECRET,
    "ssl.key.password": "env:KEY_PASSWORD",
    "ssl.key.location": "/etc/key.pem",
    "ssl.key.pem": SECRET,
    "sasl.oauthbearer.config": SECRET,
    "my.api.token": SECRET,
    "sasl.kerberos.kinit.cmd": f"kinit {SECRET}",
    "compression.type": "zstd",
}


def written(folder: Path, sink: TwoPhaseSink, level: Level = Level.EXACTLY_ONCE) -> DescribedSink:
    """As the next process finds it."""
    storage = LocalStorage(folder)
    write_sinks(storage, [describe("query", sink, level)], 1.5)
    found = Sinks(storage).get("query", sink.uid)
    assert found is not None
    return found


def kafka() -> KafkaSink:
    return KafkaSink(
        "topic",
        "host:9092",
        topic="lines",
        key="word",
        value=["a", "b"],
        transactional_id_prefix="team",
        transaction_timeout=60,
        invalid_text="replace",
        options=OPTIONS,
    )


def test_no_secret_is_written_and_what_is_left_out_is_asked_for(tmp_path: Path) -> None:
    found = written(tmp_path, kafka())
    assert SECRET not in (tmp_path / SINKS).read_text()
    with pytest.raises(TidegateError) as caught:
        open_sink(found, {"sasl.password": "env:PASSWORD"})
    assert caught.value.code == "TG-OPTION-UNREADABLE"
    for name in ("ssl.key.pem", "sasl.oauthbearer.config", "my.api.token", "sasl.kerberos.kinit.cmd"):
        assert f"--option {name}=" in caught.value.next_step
    assert "sasl.password" not in caught.value.next_step


def test_an_option_that_is_hidden_in_the_log_is_not_written_into_the_folder(tmp_path: Path) -> None:
    sink = KafkaSink("topic", "host:9092", options={"proxy.pwd": SECRET, "linger.ms": "7"})
    written(tmp_path, sink)
    assert SECRET not in (tmp_path / SINKS).read_text()
    assert '"linger.ms":"7"' in (tmp_path / SINKS).read_text()


def test_a_kafka_sink_is_opened_as_the_program_had_it(tmp_path: Path) -> None:
    sink = kafka()
    again = open_sink(written(tmp_path, sink), OPTIONS)
    assert isinstance(again, KafkaSink)
    kept = ("uid", "topic", "key", "value", "headers", "partition", "format", "prefix", "transaction_timeout")
    for name in (*kept, "invalid_text"):
        assert getattr(again, name) == getattr(sink, name), name
    assert again.clients == sink.clients


def test_a_value_that_names_a_variable_or_a_file_is_kept_and_read_only_where_a_client_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORD", SECRET)
    sink = KafkaSink("topic", "host:9092", options={"sasl.password": "env:PASSWORD"})
    again = open_sink(written(tmp_path, sink), {})
    assert isinstance(again, KafkaSink)
    assert again.clients.options == {"sasl.password": "env:PASSWORD"}
    assert SECRET not in (tmp_path / SINKS).read_text()


def test_tables_and_files_are_opened_by_their_paths(tmp_path: Path) -> None:
    given = SQLiteSink("table", tmp_path / "a.db", table="t", key=["x", "y"], nan="null", invalid_text="replace")
    table = open_sink(written(tmp_path, given), {})
    assert isinstance(table, SQLiteSink)
    assert table.rules == given.rules
    assert (table.path, table.table, table.key) == (tmp_path / "a.db", "t", ("x", "y"))
    appends = SQLiteSink("table", tmp_path / "a.db", table="t", on_conflict="dead-letter")
    appends.conflicts_into = "letters"
    again = open_sink(written(tmp_path, appends), {})
    assert isinstance(again, SQLiteSink)
    assert (again.on_conflict, again.conflicts_into) == (appends.on_conflict, "letters")
    files = open_sink(written(tmp_path, FileSink("files", tmp_path / "out", format="csv", header=True)), {})
    assert isinstance(files, FileSink)
    assert files.folder == Folder.of(tmp_path / "out")
    remote = open_sink(written(tmp_path, FileSink("files", "s3a://bucket/out")), {})
    assert isinstance(remote, FileSink)
    assert str(remote.folder) == "s3://bucket/out"


class Careful(SQLiteSink):
    """Of a user's: what it does otherwise stands in no option."""


@pytest.mark.parametrize("sink", [Careful("own", "a.db", table="t"), PrintSink("console")], ids=["subclass", "console"])
def test_what_only_the_program_can_open_is_said(tmp_path: Path, sink: TwoPhaseSink) -> None:
    found = written(tmp_path, sink)
    with pytest.raises(TidegateError) as caught:
        open_sink(found, {})
    assert caught.value.code == "TG-SINK-OUT-OF-REACH"
    assert type(sink).__name__ in caught.value.found
    assert "start the job" in caught.value.next_step


def test_only_a_target_that_keeps_evidence_is_compared(tmp_path: Path) -> None:
    table = SQLiteSink("table", tmp_path / "a.db", table="t")
    assert written(tmp_path, table).keeps_evidence
    assert not written(tmp_path, table, Level.AT_LEAST_ONCE).keeps_evidence
    assert not written(tmp_path, PrintSink("console")).keeps_evidence


@pytest.mark.parametrize("data", [f'{{"format": {FORMAT + 1}, "new": 1}}', "{", '{"format": 1}'])
def test_a_newer_or_torn_description_is_refused(tmp_path: Path, data: str) -> None:
    (tmp_path / SINKS).write_text(data)
    with pytest.raises(TidegateError) as caught:
        Sinks(LocalStorage(tmp_path))
    assert caught.value.code == "TG-SINK-OUT-OF-REACH"
