"""A right of a Kafka user, with the names of the tool that grants rights."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a resource, with the names of `kafka-acls`, such as ("Write", "transactional-id")."""

    operation: str
    kind: str
    name: str
    is_prefix: bool = False

    def __str__(self) -> str:
        kind = self.kind.replace("-", " ")
        what = f"{kind}s that begin with {self.name!r}" if self.is_prefix else f"{kind} {self.name!r}"
        return f"{self.operation.upper()} on {what}"

    def grant(self) -> str:
        """The arguments of `kafka-acls` that grant this right."""
        pattern = " --resource-pattern-type prefixed" if self.is_prefix else ""
        whom = "--bootstrap-server ... --add --allow-principal User:..."
        return f"{whom} --operation {self.operation} --{self.kind} {self.name}{pattern}"
