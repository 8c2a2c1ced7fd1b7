"""Small Java classes, compiled on demand by Janino, the compiler that Spark ships for its generated code. Their sources
are in the folder `java`, one file for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

_FOLDER = Path(__file__).with_name("java")
_JAVA = 8
"""Janino compiles for Java 6 by default, and then it cannot call static methods of an interface."""


def object_of(jvm: Any, class_loader: Any, name: str) -> Any:
    """The single object of the class with this name, in this JVM. `class_loader` knows Spark's classes."""
    return _of_jvm(_OBJECTS, jvm, name, lambda: class_of(jvm, class_loader, name).newInstance())


def class_of(jvm: Any, class_loader: Any, name: str) -> Any:
    """The class with this name. Its `newInstance` makes an object of it.

    A class is compiled once for each JVM: Py4J finds methods by the name of the class, and would call those of the
    first.
    """

    return _of_jvm(_CLASSES, jvm, name, lambda: _compiler(jvm, class_loader, name).getClassLoader().loadClass(name))


def define_beside(jvm: Any, class_loader: Any, name: str, inner: Sequence[str], neighbour: Any) -> None:
    """Define the class with this name in the package of the class `neighbour`, where code finds it that knows only the
    name of a class. `inner`: its inner classes, each behind those that it needs. A class that is there already stays.
    """
    with _LOCK:
        code = _compiler(jvm, class_loader, name).getBytecodes()
        defines = object_of(jvm, class_loader, "TidegateDefines")
        package = neighbour.getPackageName()
        for each in (*(f"{package}.{name}${part}" for part in inner), f"{package}.{name}"):
            defines.beside(neighbour, each, code[each])


def _compiler(jvm: Any, class_loader: Any, name: str) -> Any:
    compiler: Any = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(class_loader)
    compiler.setTargetVersion(_JAVA)
    compiler.cook((_FOLDER / f"{name}.java").read_text("utf-8"))
    return compiler


_OfJvm: TypeAlias = WeakKeyDictionary[Any, dict[str, Any]]


def _of_jvm(found: _OfJvm, jvm: Any, name: str, make: Callable[[], Any]) -> Any:
    """The object with this name for the JVM. The first call makes it."""
    with _LOCK:
        made = found.setdefault(jvm._gateway_client, {})
        if name not in made:
            made[name] = make()
        return made[name]


_CLASSES: _OfJvm = WeakKeyDictionary()
_OBJECTS: _OfJvm = WeakKeyDictionary()
_LOCK = RLock()
