"""Small Java classes that are compiled when they are needed, by Janino, the compiler that Spark ships for the code it
generates. Their text is in the folder `java`, a file for each class."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

_FOLDER = Path(__file__).with_name("java")
_JAVA = 8
"""Janino compiles for Java 6 unless it is told more, and then it calls no static method of an interface."""


def object_of(jvm: Any, class_loader: Any, name: str) -> Any:
    """The one object of the class with this name, in this JVM. `class_loader` knows Spark's classes.

    A class is compiled once for a JVM: Py4J finds methods by the name of the class, and would call those of the first.
    """
    with _LOCK:
        made = _MADE.setdefault(jvm._gateway_client, {})
        if name not in made:
            compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(class_loader)
            compiler.setTargetVersion(_JAVA)
            compiler.cook((_FOLDER / f"{name}.java").read_text("utf-8"))
            made[name] = compiler.getClassLoader().loadClass(name).newInstance()
        return made[name]


_MADE: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
_LOCK = Lock()
