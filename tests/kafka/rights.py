"""What a user of a broker with an access list may do."""

from __future__ import annotations

import time
from enum import Enum

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from tidegate.testing.kafka import Broker

_SECONDS = 60.0


class On(Enum):
    """What a right is about."""

    TOPIC = ResourceType.TOPIC
    GROUP = ResourceType.GROUP
    TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
    CLUSTER = ResourceType.BROKER


def grant(broker: Broker, user: str, on: On, name: str, *operations: AclOperation, prefix: bool = False) -> None:
    """Allow it, as the broker's user `admin`. Returns when the broker goes by it: that is a moment after it is told."""
    admin = AdminClient({**broker.options("admin"), "bootstrap.servers": broker.servers})
    pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    parts = [(on.value, name, pattern, f"User:{user}", "*", one, AclPermissionType.ALLOW) for one in operations]
    for told in admin.create_acls([AclBinding(*part) for part in parts]).values():
        told.result(_SECONDS)
    deadline = time.monotonic() + _SECONDS
    while not all(admin.describe_acls(AclBindingFilter(*part)).result(_SECONDS) for part in parts):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{broker.servers} does not go by its new rights")
        time.sleep(0.05)
