"""How large one message is: for the broker, which measures a whole record batch, and for the client that sends it.

Source of the layout: Kafka's record format v2 (kafka.apache.org/documentation/#recordbatch). The client's own count is
librdkafka's `rd_kafka_msg_new`: key, value and headers, and the most that a record may have around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.sinks.kafka.messages import Message

BATCH_HEADER_BYTES = 61
_AROUND_A_MESSAGE_BYTES = 36
"""RD_KAFKAP_MESSAGE_V2_MAX_OVERHEAD."""
_MOST_AROUND_BYTES = 100
"""More than a batch of one record without headers has around key and value."""


def batch_bytes(message: Message) -> int:
    """The record batch of this one message, without compression: what a broker compares with max.message.bytes."""
    return BATCH_HEADER_BYTES + record_bytes(message)


def record_bytes(message: Message) -> int:
    """The first record of a batch: its time and its offset are those of the batch."""
    headers = message.get("headers") or ()
    body = 3 + _field(message["key"]) + _field(message["value"]) + _varint(len(headers)) + _headers(headers)
    return _varint(body) + body


def client_bytes(message: Message) -> int:
    """What the client compares with its message.max.bytes before it sends anything."""
    headers = message.get("headers") or ()
    return _AROUND_A_MESSAGE_BYTES + len(message["key"] or b"") + len(message["value"] or b"") + _headers(headers)


def at_most_bytes(messages: Sequence[Message]) -> int:
    """No message is larger than this, by either count: a quick look at many of them."""
    most = max((len(each["key"] or b"") + len(each["value"] or b"") for each in messages), default=0)
    headers = max((_headers(each["headers"]) for each in messages if "headers" in each), default=0)
    return most + headers + _MOST_AROUND_BYTES


def runs(messages: Sequence[Message], most_bytes: int) -> Iterator[list[Message]]:
    """The messages in their order, as many at a time as one batch of `most_bytes` holds; a larger one alone."""
    run, size = list[Message](), 0
    for message in messages:
        more = batch_bytes(message)
        if run and size + more > most_bytes:
            yield run
            run, size = [], 0
        run.append(message)
        size += more
    if run:
        yield run


def record(message: Message) -> bytes:
    """The bytes of `record_bytes`."""
    headers = message.get("headers") or ()
    body = b"".join(
        [
            b"\x00\x00\x00",
            _bytes_of(message["key"]),
            _bytes_of(message["value"]),
            _varint_of(len(headers)),
            *(_bytes_of(part) for name, value in headers for part in (name.encode(), value)),
        ]
    )
    return _varint_of(len(body)) + body


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> int:
    return sum(_field(name.encode()) + _field(value) for name, value in headers)


def _field(data: bytes | None) -> int:
    return 1 if data is None else _varint(len(data)) + len(data)


def _varint(number: int) -> int:
    """The bytes of a length: zigzag, seven bits in each."""
    return max(1, -(-(number << 1).bit_length() // 7))


def _varint_of(number: int) -> bytes:
    rest, out = (number << 1) if number >= 0 else (-number << 1) - 1, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _bytes_of(data: bytes | None) -> bytes:
    return _varint_of(-1) if data is None else _varint_of(len(data)) + data
