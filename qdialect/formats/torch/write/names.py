"""Names in a torch module: the stable keys of the ops, as paths of submodules.

`features.0/conv` becomes `features.0_conv`: dots stay, what Python takes in no name becomes `_`.
"""

from __future__ import annotations

import re

from torch.nn import Module

_ATTRIBUTES = frozenset(dir(Module()))


class Names:
    """Paths that are in use; each is given once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def path(self, text: str) -> str:
        """A path for what is named `text`."""
        parts = [_part(part) for part in text.split(".") if part] or ["value"]
        wished = ".".join(parts)
        path, number = wished, 1
        while path in self._taken:
            number += 1
            path = f"{wished}_{number}"
        self._taken.add(path)
        return path


def identifier(text: str) -> str:
    """A name of a parameter of `forward`."""
    name = re.sub(r"\W", "_", text)
    return name if name.isidentifier() else f"_{name}"


def _part(text: str) -> str:
    part = re.sub(r"\W", "_", text).strip("_") or "_"
    return f"{part}_" if part in _ATTRIBUTES else part
