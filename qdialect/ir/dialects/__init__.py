"""The dialects: upstream's `quant` (plus `quant.rescale`), `nn`, and those of the plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from qdialect.plugin import named, plugins

if TYPE_CHECKING:
    from xdsl.ir import Dialect

#: dialect name -> where its `Dialect` object lives
DIALECTS: Mapping[str, str] = {
    "quant": "qdialect.ir.quant:Quant",
    "nn": "qdialect.ir.ops:NN",
    **{name: where for plugin in plugins() for name, where in plugin.dialects.items()},
}


def load(name: str) -> Callable[[], Dialect]:
    """A function that imports the dialect when it is first needed."""

    def factory() -> Dialect:
        return named(DIALECTS[name])

    return factory
