"""Running a model in an engine that takes TOSA.

The engine runs the integer network only: float inputs are quantized and results dequantized
around it, by the interpreter's definition, as a caller of integer code does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute

from qdialect.engines.installed import engine_named
from qdialect.errors import InputError
from qdialect.interpreter import argument_names, output_names
from qdialect.ir.quant import quant_element
from qdialect.passes.casts.fold_interface import FLOAT_TYPE, ROUNDING
from qdialect.plugins.common.lowering.debug_attributes import INTERFACE, marked_type
from qdialect.plugins.common.program import Program
from qdialect.workflows.lower import converted_model
from qdialect.workflows.validation.translation import converted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.workflows.model import Model

    Array = NDArray[Any]


class InEngine:
    """A model in TOSA's form (`ready_model`), lowered and run: inputs and outputs by name,
    in floats where the model's were."""

    def __init__(self, ready: Model, engine: str) -> None:
        self.engine = engine_named(engine)
        lowered = converted_model(ready)
        self.program = Program.of(lowered.module, lowered.ctx)
        self.ctx = ready.ctx
        function = ready.function()
        kind = function.function_type
        self.arguments, self.results = argument_names(function), output_names(function)
        self.takes = _sides(kind.inputs.data, function.arg_attrs)
        self.gives = _sides(kind.outputs.data, function.res_attrs)

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return self.all([inputs])[0]

    def all(self, samples: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """Every sample; the program is compiled once."""
        runs = self.engine.run(self.program, [self.codes(s) for s in samples])
        return [self.named(arrays) for arrays in runs]

    def named(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """What the integer function gives as the model's outputs, by name."""
        outputs = [
            self._output(*side, array.view(result.dtype).reshape(result.shape))
            for side, result, array in zip(self.gives, self.program.results, arrays, strict=True)
        ]
        return dict(zip(self.results, outputs, strict=True))

    def codes(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The inputs as the integer function takes them."""
        for name in self.arguments:
            if name not in inputs:
                known = ", ".join(self.arguments)
                raise InputError(f"input '{name}' is missing (inputs: {known})", code="bad-input")
        codes: list[Array] = []
        for name, (kind, note) in zip(self.arguments, self.takes, strict=True):
            array = inputs[name]
            if FLOAT_TYPE in note and array.dtype.kind == "f":
                rounding = note.get(ROUNDING)
                array = converted(self.ctx, array, note[FLOAT_TYPE], kind, rounding=rounding)
            codes.append(array)
        return codes

    def _output(self, kind: Attribute, note: Mapping[str, Attribute], array: Array) -> Array:
        """A result of the integer function as the model's caller gets it."""
        element = quant_element(kind)
        if element is not None and not element.qparams.storage.signed:
            array = array.view(f"u{array.dtype.itemsize}")
        if FLOAT_TYPE not in note:
            return array
        return converted(self.ctx, array, kind, note[FLOAT_TYPE])


def _sides(
    kinds: Sequence[Attribute], attributes: ArrayAttr[DictionaryAttr] | None
) -> list[tuple[Attribute, Mapping[str, Attribute]]]:
    """Types and attributes of arguments or results; what is marked is a quantized type."""
    notes: list[Mapping[str, Attribute]] = [{} for _ in kinds]
    for index, entry in enumerate(attributes or ()):
        notes[index] = entry.data
    pairs = zip(kinds, notes, strict=True)
    return [(marked_type(note, kind, INTERFACE) or kind, note) for kind, note in pairs]
