"""A real Kafka broker for demos and tests.

Its jars are downloaded once; it runs in a folder and listens on loopback only.
"""

from tidegate.testing.kafka.broker import Broker
from tidegate.testing.kafka.jars import DEFAULT_VERSION
from tidegate.testing.kafka.status import BrokerState, NodeStatus, Status, status
from tidegate.testing.kafka.status import BrokerState as State

__all__ = ["DEFAULT_VERSION", "Broker", "BrokerState", "NodeStatus", "State", "Status", "status"]
