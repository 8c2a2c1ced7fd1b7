"""Whether a row that is too large as it is fits once the client has compressed it: no broker is needed for that."""

from __future__ import annotations

import random

import pytest

from tidegate.sinks.kafka.compressed_size import fits_compressed
from tidegate.sinks.kafka.messages import Message

_NOISE = random.Random(1).randbytes(600_000)


@pytest.mark.parametrize(
    ("value", "options", "fits"),
    [
        (_NOISE + _NOISE, {"compression.type": "zstd"}, True),
        (_NOISE + _NOISE, {"compression.type": "lz4"}, False),
        (bytes(1_200_000), {"compression.type": "gzip"}, True),
        (bytes(1_200_000), {"compression.type": "gzip", "compression.level": "0"}, False),
    ],
    ids=["a repetition that Arrow's codec does not see", "none that lz4 sees", "zeros", "zeros that stay as they are"],
)
def test_what_the_client_sends_decides_and_no_other_codec(value: bytes, options: dict[str, str], fits: bool):
    message: Message = {"key": None, "value": value}
    assert fits_compressed(message, 700_000, options) == fits
