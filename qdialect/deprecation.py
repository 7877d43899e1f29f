"""How a name of the public interface goes: it works for a while, and warns.

    _RENAMED = {"old_name": Renamed("new_name", since="0.2")}

    def __getattr__(name: str) -> Any:
        return globals()[current_name(__name__, name, _RENAMED)]

For a function, a class or a parameter that stays where it is: `warn_deprecated`. The rule of how
long is on docs/reference/api.md.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple, cast


class Renamed(NamedTuple):
    """The name that is to be used instead, and the version since which the old one warns."""

    instead: str
    since: str


def warn_deprecated(what: str, *, instead: str, since: str, stacklevel: int = 2) -> None:
    """A DeprecationWarning at the caller of who calls this (`stacklevel` as in `warnings`)."""
    message = f"{what} is deprecated since qdialect {since}; use {instead}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)


def current_name(module: str, name: str, renamed: Mapping[str, Renamed]) -> str:
    """The name that took the place of `name` in a module, with a warning for who reads it (through
    the `__getattr__` of the module); `name` itself if it was not renamed."""
    if name not in renamed:
        return name
    instead, since = renamed[name]
    warn_deprecated(f"{module}.{name}", instead=f"{module}.{instead}", since=since, stacklevel=3)
    return instead


MOVED = {
    "qdialect.behaviors": "qdialect.ir.behaviors",
    "qdialect.context": "qdialect.ir.context",
    "qdialect.numerics": "qdialect.algebra",
    "qdialect.ops": "qdialect.ir.ops",
    "qdialect.profile": "qdialect.quantizer.profile",
    "qdialect.qparams": "qdialect.algebra.qparams",
    "qdialect.quant": "qdialect.ir.quant",
    "qdialect.reference": "qdialect.interpreter",
    "qdialect.torch_backend": "qdialect.plugins.torch.backend",
}
"""Public modules (and what is below them) that have another name since 0.1."""


class MovedModules:
    """Imports a module by the name that it had before: the same module object, and a warning."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The loader of a name in `MOVED` or below one of them; None for other names."""
        old = ".".join(fullname.split(".")[:2])
        if old not in MOVED:
            return None
        instead = MOVED[old] + fullname[len(old) :]
        return ModuleSpec(fullname, cast("Any", self), origin=instead)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module by its new name."""
        assert spec.origin is not None
        warn_deprecated(spec.name, instead=spec.origin, since="0.1", stacklevel=5)
        module = import_module(spec.origin)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the module was executed by its new name."""
        # The import system has put that of the old name there.
        module.__spec__ = None if module.__spec__ is None else module.__spec__.loader_state


def find_moved_modules() -> None:
    """Lets `import` find the names of `MOVED`. It is asked first: below a package by its old name
    the import system would find the files once more, as other modules."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())
