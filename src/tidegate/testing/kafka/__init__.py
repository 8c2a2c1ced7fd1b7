"""A real Kafka broker for demos and tests: fetched once, run in a folder, on this machine's loopback only."""

from tidegate.testing.kafka.broker import Broker
from tidegate.testing.kafka.jars import DEFAULT_VERSION
from tidegate.testing.kafka.status import NodeStatus, State, Status, status

__all__ = ["DEFAULT_VERSION", "Broker", "NodeStatus", "State", "Status", "status"]
