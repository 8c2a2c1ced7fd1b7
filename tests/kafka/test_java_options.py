"""The names that Kafka's client for Java knows, against its jar."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tests.integration.conftest import spark  # noqa: F401  # pyright: ignore[reportUnusedImport] (a fixture)
from tidegate.spark.sources.java_option_names import JAVA_NAMES
from tidegate.testing.kafka.jars import DEFAULT_VERSION, kafka_jars


def test_the_table_of_names_is_that_of_the_brokers_client(spark: SparkSession) -> None:  # noqa: F811 (the fixture)
    folder = kafka_jars(DEFAULT_VERSION, print)
    jvm: Any = spark.sparkContext._jvm
    urls: Any = spark.sparkContext._gateway.new_array(jvm.java.net.URL, 2)  # type: ignore[union-attr]
    for place, jar in enumerate((f"kafka-clients-{DEFAULT_VERSION}.jar", "slf4j-api-2.0.17.jar")):
        urls[place] = jvm.java.net.URL(f"file:{folder / jar}")
    loader, thread = jvm.java.net.URLClassLoader(urls), jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)  # the client's defaults name classes, which it looks for by this one
    try:
        client = loader.loadClass("org.apache.kafka.clients.consumer.ConsumerConfig")
        listed = set(map(str, client.getMethod("configNames", None).invoke(None, None)))
    finally:
        thread.setContextClassLoader(before)
    assert listed == JAVA_NAMES
