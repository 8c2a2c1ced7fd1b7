"""Connections of the Redis sink: TLS, and a server that takes no more clients."""

from __future__ import annotations

from typing import Any

import pytest

from tests.redis.test_redis_faults import own_place
from tests.redis.test_redis_keys import KEYED, prepared, row
from tests.support.certificates import certificates
from tests.support.redis import PASSWORD
from tests.support.staged import outcome, plan
from tidegate.core.errors import TidegateError
from tidegate.core.records import Outcome
from tidegate.sinks.redis.sink import RedisSink
from tidegate.testing.kafka.ports import free_port


def test_a_server_that_takes_no_more_clients_is_told_as_that_and_loses_nothing() -> None:
    """The task fails, so that its epoch is computed again. The commit waits."""
    with own_place() as place, place.server.client() as client:
        sink = place.sink()
        waiting = prepared(sink, [row(1, "x")])
        client.config_set("maxclients", "1")
        (violation,) = sink.check(plan(KEYED))
        assert "max number of clients" in violation.found
        assert violation.next_step.startswith("raise maxclients")
        with pytest.raises(TidegateError) as raised:
            prepared(sink, [row(1, "y"), row(2, "y")], epoch=1)
        assert (raised.value.code, "raise maxclients" in raised.value.next_step) == ("TG-SINK-UNUSABLE", True)
        (answer,) = sink.commit([waiting])
        assert (answer.outcome, "max number of clients" in answer.detail) == (Outcome.RETRY, True)
        client.config_set("maxclients", "100")
        assert outcome(sink, waiting) is Outcome.COMMITTED
        assert outcome(sink, prepared(sink, [row(1, "y"), row(2, "y")], epoch=1)) is Outcome.COMMITTED
        assert {key: each["v"] for key, each in place.rows().items()} == {"1": "y", "2": "y"}


def test_the_certificate_of_the_server_is_compared_with_the_one_that_the_options_name() -> None:
    with certificates() as (ours, other):
        port = free_port(())
        files = {"tls-cert-file": str(ours[0]), "tls-key-file": str(ours[1])}
        with own_place(
            **{"tls-port": str(port), "tls-auth-clients": "no", "tls-ca-cert-file": str(ours[0]), **files}
        ) as place:

            def sink_of(host: str = "127.0.0.1", at: int = port, **tls: Any) -> RedisSink:
                options = {"password": PASSWORD, "ssl_check_hostname": True, **tls}
                return RedisSink("out", f"rediss://{host}:{at}/0", prefix=place.prefix, key="k", options=options)

            sink = sink_of(ssl_ca_certs=str(ours[0]))
            assert sink.check(plan(KEYED)) == []
            sink.open(plan(KEYED))
            assert outcome(sink, prepared(sink, [row(1, "x")])) is Outcome.COMMITTED
            assert place.rows() == {"1": {"k": "1", "v": "x", "gone": "false"}}
            refused = [
                (sink_of(ssl_ca_certs=str(other[0])), "certificate verify failed"),
                (sink_of(), "certificate verify failed"),
                (sink_of("localhost", ssl_ca_certs=str(ours[0])), "ostname mismatch"),
                (sink_of(at=place.server.port, socket_timeout=0.2), "Timeout"),
            ]
            for wrong, told in refused:
                (violation,) = wrong.check(plan(KEYED))
                assert violation.code == "TG-SINK-UNUSABLE"
                assert told in violation.found
                assert "TLS options" in violation.next_step
