"""One job of PyFlink from topic to topic, exactly-once: run by a Python that has `apache-flink`, and not tidegate.

    python flink_program.py map|count sql|python|pandas SERVERS SOURCE OUT JAR

A checkpoint a second, two parallel tasks, objects reused; all else as Flink has it, but for the count: it takes the
changes of a second together (mini-batch), without which every event gives a row.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import sys

from pyflink.common import Configuration
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.udf import udf

_EVENTS = """
CREATE TABLE events (id BIGINT, `key` STRING, amount INT, text STRING) WITH (
    'connector' = 'kafka', 'properties.bootstrap.servers' = '{servers}', 'properties.group.id' = '{out}',
    'topic' = '{source}', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
    'format' = 'json'
)"""
_SINK = """
    'properties.bootstrap.servers' = '{servers}', 'properties.transaction.timeout.ms' = '900000', 'topic' = '{out}',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{out}',
    'key.format' = 'raw', 'value.format' = 'json'
"""
_TABLES = {
    "map": "CREATE TABLE sink (id BIGINT, `key` STRING, twice INT, text STRING) WITH ("
    "'connector' = 'kafka', 'key.fields' = 'key', {sink})",
    "count": "CREATE TABLE sink (`key` STRING, `count` BIGINT, `sum` BIGINT, PRIMARY KEY (`key`) NOT ENFORCED) WITH ("
    "'connector' = 'upsert-kafka', {sink})",
}
_QUERIES = {
    "map": "INSERT INTO sink SELECT id, `key`, {twice} AS twice, text FROM events",
    "count": "INSERT INTO sink SELECT `key`, COUNT(*), SUM(CAST({twice} AS BIGINT)) FROM events GROUP BY `key`",
}
_TWICE = {"sql": "amount * 2", "python": "twice(amount)", "pandas": "twice(amount)"}
_KINDS = {"python": "general", "pandas": "pandas"}


def main() -> None:
    work, way, servers, source, out, jar = sys.argv[1:]
    settings = Configuration()
    for name, value in {
        "pipeline.jars": f"file://{jar}",
        "pipeline.object-reuse": "true",
        "parallelism.default": "2",
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.mode": "EXACTLY_ONCE",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "200000",
        "python.executable": sys.executable,
        "python.client.executable": sys.executable,
    }.items():
        settings.set_string(name, value)
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build()
    )
    tables.execute_sql(_EVENTS.format(servers=servers, source=source, out=out))
    tables.execute_sql(_TABLES[work].format(sink=_SINK.format(servers=servers, out=out)))
    if way in _KINDS:
        twice = udf(lambda amount: amount * 2, result_type=DataTypes.INT(), func_type=_KINDS[way])
        tables.create_temporary_function("twice", twice)
    tables.execute_sql(_QUERIES[work].format(twice=_TWICE[way])).wait()


if __name__ == "__main__":
    main()
