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
        #: paths that something is below of, and those that nothing can be below of
        self._parents: set[str] = set()
        self._leaves: set[str] = set()

    def path(self, text: str, *, leaf: bool = False) -> str:
        """A path for what is named `text`; nothing is put below a `leaf`."""
        parts = [_part(part) for part in text.split(".") if part] or ["value"]
        for depth in range(1, len(parts)):
            while ".".join(parts[:depth]) in self._leaves:
                parts[depth - 1] += "_"
        wished = ".".join(parts)
        path, number = wished, 1
        while path in self._taken or (leaf and path in self._parents):
            number += 1
            path = f"{wished}_{number}"
        self._taken.add(path)
        self._parents.update(".".join(parts[:depth]) for depth in range(1, len(parts)))
        if leaf:
            self._leaves.add(path)
        return path


def identifier(text: str) -> str:
    """A name of a parameter of `forward`."""
    name = re.sub(r"\W", "_", text)
    return name if name.isidentifier() else f"_{name}"


def _part(text: str) -> str:
    part = re.sub(r"\W", "_", re.sub(r"^\W+|\W+$", "", text)) or "_"
    return f"{part}_" if part in _ATTRIBUTES else part
