"""Answers questions of Spark's JVM in this process."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import parsed
from tidegate.core.telling import ToldStep, told
from tidegate.logs.subject import about_all_of, subject
from tidegate.spark.compiled import class_of, object_of
from tidegate.spark.telling import WORD

_LOG = logging.getLogger("tidegate")


class Asked(ABC):
    """Answers the questions of a source's Java half (`java/TidegateAsked.java`): a JSON object as text in, another one
    out. Spark's stream thread waits for the answer.

    Errors are returned as text, because the traceback of a Python exception would overflow that thread's stack.
    """

    def __init__(self) -> None:
        self._about = subject()

    @abstractmethod
    def answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to one question; `what` in it is the kind of the question."""

    def apply(self, text: str) -> str:
        with about_all_of(self._about):
            try:
                return msgspec.json.encode(self.answer(parsed(text, dict[str, Any]))).decode()
            except TidegateError as error:
                return msgspec.json.encode({"error": str(told(error, ToldStep.SOURCE, WORD))}).decode()
            except BaseException as error:  # noqa: BLE001 (Spark's thread raises it, and it ends the query)
                _LOG.debug("a source failed", exc_info=error)
                return msgspec.json.encode({"error": f"{type(error).__name__}: {error}"}).decode()

    class Java:
        implements = ["java.util.function.Function"]  # noqa: RUF012 (Py4J's form)


def asking_object(jvm: Any, class_loader: Any, name: str) -> Any:
    """The single object of a Java class that asks. `class_loader` knows Spark's classes."""
    return object_of(jvm, class_of(jvm, class_loader, "TidegateAsked").getClassLoader(), name)
