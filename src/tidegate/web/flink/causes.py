"""The cause of a failure as Flink's clients read it.

Its older clients take nothing but an object of Java, `org.apache.flink.util.SerializedThrowable`, in Java's
serialization (protocol version 5). It is written here by hand: a text and a class name, no cause and no stack.
"""

from __future__ import annotations

import base64

from tidegate.core.errors import TidegateError
from tidegate.web.flink.shapes import FlinkFailureCause

_TEXT_BYTES = 16_000
"""Java's short strings have at most 65,535 bytes."""

_NULL, _CLASS, _OBJECT, _STRING, _END = b"\x70", b"\x72", b"\x73", b"\x74", b"\x78"
_FLINKS_UID = 7284183123441947635
_EXCEPTIONS_UID = -3387516993124229948
_THROWABLES_UID = -3042686055658047285
_STRINGS = "Ljava/lang/String;"


def cause(kind: str, text: str) -> FlinkFailureCause:
    """An error. `kind`: what stands for a class of Java, such as a code of tidegate."""
    shown = f"{kind}: {text}"
    return FlinkFailureCause(
        class_name=kind,
        message=text,
        stack_trace=shown,
        serialized=base64.b64encode(_throwable(kind, text, shown)).decode(),
    )


def cause_of(error: TidegateError) -> FlinkFailureCause:
    """An error of tidegate. Its code stands for the class."""
    return cause(error.code, str(error).removeprefix(f"{error.code}: "))


def _throwable(kind: str, text: str, stack: str) -> bytes:
    throwable = (
        _CLASS + _utf("java.lang.Throwable") + _long(_THROWABLES_UID) + b"\x03" + b"\x00\x04"
        + _field("L", "cause", "Ljava/lang/Throwable;")
        + _field("L", "detailMessage", _STRINGS)
        + _field("[", "stackTrace", "[Ljava/lang/StackTraceElement;")
        + _field("L", "suppressedExceptions", "Ljava/util/List;")
        + _END + _NULL
    )  # fmt: skip
    exception = _CLASS + _utf("java.lang.Exception") + _long(_EXCEPTIONS_UID) + b"\x02" + b"\x00\x00" + _END + throwable
    described = (
        _CLASS + _utf("org.apache.flink.util.SerializedThrowable") + _long(_FLINKS_UID) + b"\x02" + b"\x00\x03"
        + _field("L", "fullStringifiedStackTrace", _STRINGS)
        + _field("L", "originalErrorClassName", _STRINGS)
        + _field("[", "serializedException", "[B")
        + _END + exception
    )  # fmt: skip
    of_throwable = _NULL + _string(text) + _NULL + _NULL + _END
    of_flink = _string(stack) + _string(kind) + _NULL
    return b"\xac\xed\x00\x05" + _OBJECT + described + of_throwable + of_flink


def _field(code: str, name: str, kind: str) -> bytes:
    return code.encode() + _utf(name) + _string(kind)


def _string(text: str) -> bytes:
    return _STRING + _utf(text)


def _utf(text: str) -> bytes:
    """Java's own UTF-8. Characters that it writes in another way are shown as "?"."""
    plain = "".join(each if 0 < ord(each) < 0xD800 or 0xE000 <= ord(each) < 0x10000 else "?" for each in text)
    data = plain.encode()[:_TEXT_BYTES].decode(errors="ignore").encode()
    return len(data).to_bytes(2, "big") + data


def _long(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)
