"""Selects the options of a client that may be written to a file, because they hold no secret."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.redaction import may_be_secret
from tidegate.kafka.wire_options import CONNECTS


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that hold no secret. A value that only says where the secret is (`env:NAME`, `file:PATH`) is none."""
    return {name: value for name, value in options.items() if _may_be_shown(name, value)}


def _may_be_shown(name: str, value: str) -> bool:
    """True if a value may be shown.

    Options of logins and TLS are shown only if they are known to be no secret, others unless their name sounds like
    one.
    """
    if value.startswith(("env:", "file:")):
        return True
    if name.startswith(_OF_A_LOGIN):
        return name in CONNECTS and not may_be_secret(name)
    return not may_be_secret(name)


_OF_A_LOGIN = ("sasl.", "ssl.", "enable.sasl.", "enable.ssl.")
