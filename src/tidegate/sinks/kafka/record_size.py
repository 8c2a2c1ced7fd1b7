"""The size of one message, as the broker measures it (a whole record batch) and as the sending client measures it.

Source of the layout: Kafka's record format v2 (kafka.apache.org/documentation/#recordbatch). The client's count is
librdkafka's `rd_kafka_msg_new`: key, value and headers, and the largest overhead of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.sinks.kafka.messages import Message

BATCH_HEADER_BYTES = 61
_AROUND_A_MESSAGE_BYTES = 36
"""RD_KAFKAP_MESSAGE_V2_MAX_OVERHEAD."""
_MOST_AROUND_BYTES = 100
"""More bytes than a batch of one record without headers has around key and value."""


def batch_bytes(message: Message) -> int:
    """The size of the record batch of this one message, without compression. A broker compares it with
    max.message.bytes.
    """
    return BATCH_HEADER_BYTES + record_bytes(message)


def record_bytes(message: Message) -> int:
    """The size of the first record of a batch. Its time and offset are those of the batch."""
    headers = message.get("headers") or ()
    body = 3 + _field(message["key"]) + _field(message["value"]) + _varint(len(headers)) + _headers(headers)
    return _varint(body) + body


def client_bytes(message: Message) -> int:
    """The size that the client compares with its message.max.bytes before it sends anything."""
    headers = message.get("headers") or ()
    return _AROUND_A_MESSAGE_BYTES + len(message["key"] or b"") + len(message["value"] or b"") + _headers(headers)


def at_most_bytes(messages: Sequence[Message]) -> int:
    """An upper bound of the size of each message, by both counts: a quick check of many messages."""
    most = max((len(each["key"] or b"") + len(each["value"] or b"") for each in messages), default=0)
    headers = max((_headers(each["headers"]) for each in messages if "headers" in each), default=0)
    return most + headers + _MOST_AROUND_BYTES


def runs(messages: Sequence[Message], most_bytes: int) -> Iterator[list[Message]]:
    """The messages in their order, in parts that fit into one batch of `most_bytes`; a larger message comes alone."""
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
    """The size of `record_bytes`."""
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
    """The size of an encoded length in a Kafka record, in bytes: zigzag, seven bits a byte."""
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
