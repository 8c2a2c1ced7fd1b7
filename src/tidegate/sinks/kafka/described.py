"""The description of a Kafka sink that a start writes, and the check of its cluster without the job's program."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from tidegate.core.health import Finding, failed_by, ok, warn
from tidegate.kafka.brokers import OLDEST
from tidegate.kafka.cluster import cluster_of
from tidegate.kafka.shown_options import shown_options
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.check import cluster_violations_of
from tidegate.sinks.kafka.declared import DeclaredKafkaSink


class KafkaTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `KafkaSink`. `left_out`: the names of options that may hold secrets."""

    servers: str
    topic: str | None
    key: str | None
    value: tuple[str, ...]
    headers: str | None
    partition: str | None
    format: str
    prefix: str
    transaction_timeout: float | None
    options: dict[str, str]
    left_out: tuple[str, ...] = ()
    invalid_text: str = "refuse"

    def __str__(self) -> str:
        return f"Kafka {self.servers}, {'topics by row' if self.topic is None else f'topic {self.topic}'}"


def target_of(sink: DeclaredKafkaSink) -> KafkaTarget:
    kept = shown_options(sink.clients.options)
    return KafkaTarget(
        servers=sink.clients.servers,
        topic=sink.topic,
        key=sink.key,
        value=sink.value,
        headers=sink.headers,
        partition=sink.partition,
        format=sink.format,
        prefix=sink.prefix,
        transaction_timeout=sink.transaction_timeout,
        options=kept,
        left_out=tuple(sorted(sink.clients.options.keys() - kept.keys())),
        invalid_text=sink.invalid_text.value,
    )


def options_of(target: KafkaTarget, put_in: Mapping[str, str]) -> dict[str, str]:
    """The options of the clients, together with those that were left out."""
    return {**target.options, **{name: put_in[name] for name in target.left_out}}


def probed(sink: DeclaredKafkaSink, what: str, plan: SinkPlan) -> Sequence[Finding]:
    """Brokers, rights and transactions of the cluster, as the sink would use them. Topics are not checked."""
    with _warnings() as warnings:
        violations = cluster_violations_of(sink, plan)
    found = [finding for each in violations for finding in failed_by(what, each)]
    found += [warn(what, each, "see docs/kafka.md") for each in warnings]
    if violations:
        return found
    cluster = cluster_of(sink)
    told = "" if cluster.tells else " (the usual value of brokers: this user may not read it)"
    return [
        ok(
            what,
            f"{sink.clients.servers} answers, Kafka {OLDEST} or newer, the user has all rights;"
            f" transactions of {cluster.timeout_ms(sink.transaction_timeout) / 1000:g} s of at most"
            f" {cluster.max_timeout_ms / 1000:g} s, interval {plan.interval_seconds:g} s;"
            f" evidence is kept {cluster.evidence_kept_ms / 3_600_000:g} h{told}",
        ),
        *found,
    ]


@contextmanager
def _warnings() -> Generator[list[str]]:
    """Collects the messages that would otherwise go to the log."""
    told: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    log, handler = logging.getLogger("tidegate"), Kept(logging.WARNING)
    before = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield told
    finally:
        log.removeHandler(handler)
        log.propagate = before
