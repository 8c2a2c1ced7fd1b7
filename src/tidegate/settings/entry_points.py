"""Classes by kind: those that tidegate ships, and those that installed packages register as entry points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from tidegate.core.errors import Code, TidegateError


@dataclass(frozen=True, slots=True)
class Kinds:
    """One group of entry points.

    `group`: its name, for instance `tidegate.sinks`. `noun`: what its classes are, in errors. `shipped`: by kind, where
    the class of tidegate's own is (`module:name`). It is loaded when it is needed. `code`: of the error for a kind that
    is not found.
    """

    group: str
    noun: str
    shipped: Mapping[str, str]
    code: Code

    def reference_of(self, kind: str) -> str | None:
        """`module:name` of the class of a kind; None where no installed package has the kind."""
        return self.shipped.get(kind) or registered(self.group).get(kind)

    def load(self, kind: str) -> object:
        """What the entry point of a kind names. Raises the error of this group where it cannot be loaded."""
        reference = self.reference_of(kind)
        if reference is None:
            there = ", ".join(sorted({*self.shipped, *registered(self.group)}))
            raise self.out_of_reach(kind, f"no {kind!r}; there are {there}")
        module, _, name = reference.partition(":")
        try:
            return getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise self.out_of_reach(kind, f"{reference}: {error}") from None

    def out_of_reach(self, kind: str, found: str) -> TidegateError:
        """The error about a kind that cannot be opened here."""
        return TidegateError(
            self.code,
            expected=f"a {self.noun} of the kind {kind!r} among the entry points {self.group!r}",
            found=found,
            where="the packages that are installed here",
            next_step="install the package that has it in the environment of this command, or start the job instead",
        )


@cache
def registered(group: str) -> Mapping[str, str]:
    """The entry points that installed packages register in a group, by kind. Reads the metadata of all packages.

    If two packages register the same kind, tidegate's own one is used, otherwise the first that Python finds.
    """
    from importlib.metadata import entry_points

    return {each.name: each.value for each in reversed(list(entry_points(group=group)))}
