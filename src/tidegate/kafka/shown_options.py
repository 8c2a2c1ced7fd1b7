"""Which options of a client may be written into a file, because they hold no secret."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.redaction import may_be_secret
from tidegate.kafka.wire_options import CONNECTS


def shown_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that hold no secret: where a value can be read counts as none (`env:NAME`, `file:PATH`)."""
    return {name: value for name, value in options.items() if _may_be_shown(name, value)}


def _may_be_shown(name: str, value: str) -> bool:
    """Of logins and TLS only what is known to be no secret; of the rest what does not sound like one."""
    if value.startswith(("env:", "file:")):
        return True
    if name.startswith(_OF_A_LOGIN):
        return name in CONNECTS and not may_be_secret(name)
    return not may_be_secret(name)


_OF_A_LOGIN = ("sasl.", "ssl.", "enable.sasl.", "enable.ssl.")
