"""How a name of the public interface goes: it works for a while, and warns.

    _RENAMED = {"old_name": Renamed("new_name", since="0.2")}

    def __getattr__(name: str) -> Any:
        return globals()[current_name(__name__, name, _RENAMED)]

For a function, a class or a parameter that stays where it is: `warn_deprecated`. The rule of how
long is on docs/reference/api.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple


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
