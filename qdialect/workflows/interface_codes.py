"""Between the floats that a model had at its interface and the codes that it has there now.

A model whose caches are codes takes and gives codes where its float model takes and gives floats.
Who compares the two hands both the same floats, and whoever runs it in earnest has to know the
grids: `caches` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.ir import Attribute

from qdialect.algebra.qparams import QParams
from qdialect.analysis.caches import find_caches
from qdialect.interpreter import argument_names, output_names
from qdialect.ir.quant import quant_element
from qdialect.passes.casts.fold_interface import FLOAT_TYPE, ROUNDING
from qdialect.workflows.validation.translation import converted

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr

    from qdialect.workflows.model import Model

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class CacheCodes:
    """A cache that a model takes and gives in codes: the names of its input and output."""

    input: str
    output: str
    qparams: QParams

    def as_json(self) -> dict[str, Any]:
        """As plain data: codes stand for scale * (code - zero_point)."""
        return {
            "input": self.input,
            "output": self.output,
            "type": self.qparams.storage.spelling,
            "scale": self.qparams.scale,
            "zero_point": self.qparams.zero_point,
        }


def cache_codes(model: Model) -> list[CacheCodes]:
    """The caches of a model that are codes at both ends, in the order of its inputs."""
    function = model.function()
    takes, gives = argument_names(function), output_names(function)
    found: list[CacheCodes] = []
    for cache in find_caches(function, model.ctx)[0]:
        element = quant_element(function.body.block.args[cache.argument].type)
        if element is not None:
            names = takes[cache.argument], gives[cache.result]
            found.append(CacheCodes(*names, element.qparams))
    return found


class InterfaceCodes:
    """The inputs and outputs of a model that are codes and were floats, by place."""

    def __init__(self, model: Model) -> None:
        function = model.function()
        kind = function.function_type
        self._ctx = model.ctx
        self._inputs = dict(_coded(kind.inputs.data, function.arg_attrs))
        self._outputs = dict(_coded(kind.outputs.data, function.res_attrs))
        self._names = argument_names(function)

    def codes(self, inputs: Arrays) -> Arrays:
        """Inputs with the codes of those that were floats."""
        found = dict(inputs)
        for place, (kind, note) in self._inputs.items():
            name = self._names[place]
            if name in found and found[name].dtype.kind == "f":
                how = note.get(ROUNDING)
                source = note[FLOAT_TYPE]
                found[name] = converted(self._ctx, found[name], source, kind, rounding=how)
        return found

    def floats(self, outputs: Sequence[Array]) -> list[Array]:
        """Outputs with what codes stand for."""
        found = list(outputs)
        for place, (kind, note) in self._outputs.items():
            found[place] = converted(self._ctx, found[place], kind, note[FLOAT_TYPE])
        return found


def _coded(
    kinds: Sequence[Attribute], attributes: ArrayAttr[DictionaryAttr] | None
) -> Iterator[tuple[int, tuple[Attribute, Mapping[str, Attribute]]]]:
    for place, (kind, entry) in enumerate(zip(kinds, attributes or (), strict=False)):
        if FLOAT_TYPE in entry.data and quant_element(kind) is not None:
            yield place, (kind, entry.data)
