"""Plug-ins: dialects, passes and declarations that come from outside.

A plug-in is a module with any of `UNIVERSE` (an `xdsl.universe.Universe`: dialects and
passes) and `register(session)`, a function that gets every new session: the place to
register behaviors. A package that names such a module under the entry-point group
`qdialect.plugins` is picked up by being installed; others are named by `--load-plugin`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from qdialect.errors import QError, UsageError, culprit
from qdialect.ir.context import QContext, new_context
from qdialect.plugin import GROUP, check_plugins, entries

if TYPE_CHECKING:
    from qdialect.pipeline.registry import PassRegistry

VARIABLE = "QDIALECT_PLUGINS"
"""The environment variable that names modules, with commas between them: those of
`--load-plugin` while a command runs, so that the processes it starts have them too."""


class Plugins:
    """The plug-ins of one run: the installed ones, those in the environment, those `named`."""

    def __init__(self, named: Sequence[str] = ()) -> None:
        check_plugins()
        names = dict.fromkeys((*installed(), *os.environ.get(VARIABLE, "").split(","), *named))
        self._modules = [_load(name) for name in names if name]

    def __bool__(self) -> bool:
        return bool(self._modules)

    def dialects(self) -> list[str]:
        """The names of the dialects of plug-ins."""
        found = (getattr(_universe(plugin), "all_dialects", {}) for plugin in self._modules)
        return [name for dialects in found for name in dialects]

    def registry(self) -> PassRegistry:
        """Passes of qdialect and of plug-ins; UsageError (`bad-plugin`) when two share a name."""
        from qdialect.pipeline.registry import PassRegistry

        registry = PassRegistry()
        for plugin in self._modules:
            for name, factory in getattr(_universe(plugin), "all_passes", {}).items():
                registry.add(name, factory)
        return registry

    def session(self, *, allow_unregistered: bool = False) -> QContext:
        """A new session that every plug-in has had; QError (`bad-plugin`) names the
        one that fails."""
        ctx = new_context(allow_unregistered=allow_unregistered)
        for plugin in self._modules:
            for name, factory in getattr(_universe(plugin), "all_dialects", {}).items():
                ctx.register_dialect(name, factory)
            register = getattr(plugin, "register", None)
            if register is None:
                continue
            whose = f"plug-in '{plugin.__name__}'"
            try:
                register(ctx)
                ctx.check_behaviors()
            except QError as error:
                raise QError(f"{whose}: {error.message}", code=error.code) from error
            except (Exception, SystemExit) as error:
                raise QError(
                    f"{whose} failed to register: {culprit(error)}", code="bad-plugin"
                ) from error
        return ctx


@contextmanager
def loaded(names: Sequence[str]) -> Generator[None, None, None]:
    """Every session within the `with` block, in processes that are started there too, has these
    plug-ins; UsageError or QError if one is none."""
    before = os.environ.get(VARIABLE, "")
    os.environ[VARIABLE] = ",".join(filter(None, (before, *names)))
    try:
        Plugins()
        yield
    finally:
        os.environ[VARIABLE] = before


def installed() -> list[str]:
    """The modules that installed packages name, sorted."""
    return sorted(where for _, where in entries(GROUP) if ":" not in where)


def _load(name: str) -> ModuleType:
    try:
        plugin = import_module(name)
    except ImportError as error:
        raise UsageError(f"cannot load plug-in '{name}': {error}", code="bad-plugin") from None
    except (Exception, SystemExit) as error:
        raise QError(
            f"plug-in '{name}' failed to load: {culprit(error)}", code="bad-plugin"
        ) from error
    if _universe(plugin) is None and not hasattr(plugin, "register"):
        raise UsageError(
            f"'{name}' is not a plug-in: it has neither UNIVERSE nor register(session)",
            code="bad-plugin",
        )
    return plugin


def _universe(plugin: ModuleType) -> object:
    return getattr(plugin, "UNIVERSE", None)
