"""What a user of a broker with an access list may do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

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
    _add(broker, _entries(user, on, name, operations, prefix, AclPermissionType.ALLOW))


def deny(broker: Broker, user: str, on: On, name: str, *operations: AclOperation, prefix: bool = False) -> None:
    """Forbid it, whatever else is allowed."""
    _add(broker, _entries(user, on, name, operations, prefix, AclPermissionType.DENY))


def revoke(broker: Broker, user: str, on: On, name: str, *operations: AclOperation, prefix: bool = False) -> None:
    """Take back what was allowed."""
    admin = _admin(broker)
    filters = [
        AclBindingFilter(*each) for each in _entries(user, on, name, operations, prefix, AclPermissionType.ALLOW)
    ]
    for told in admin.delete_acls(filters).values():
        told.result(_SECONDS)
    _await(broker, lambda: not any(admin.describe_acls(each).result(_SECONDS) for each in filters))


def _add(broker: Broker, entries: Iterable[tuple[Any, ...]]) -> None:
    admin = _admin(broker)
    for told in admin.create_acls([AclBinding(*each) for each in entries]).values():
        told.result(_SECONDS)
    _await(broker, lambda: all(admin.describe_acls(AclBindingFilter(*each)).result(_SECONDS) for each in entries))


def _entries(
    user: str, on: On, name: str, operations: Iterable[AclOperation], prefix: bool, permission: AclPermissionType
) -> list[tuple[Any, ...]]:
    pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    return [(on.value, name, pattern, f"User:{user}", "*", each, permission) for each in operations]


def _admin(broker: Broker) -> AdminClient:
    return AdminClient({**broker.options("admin"), "bootstrap.servers": broker.servers})


def _await(broker: Broker, goes_by_it: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not goes_by_it():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{broker.servers} does not go by its new rights")
        time.sleep(0.05)
