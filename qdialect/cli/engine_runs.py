"""Running a model in an engine that takes TOSA: what is lowered, and what stays outside.

The integer network runs in the engine. Quantizing float inputs and dequantizing results is
done around it, by the interpreter's definition, as a caller of integer code does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from qdialect.engines.installed import engine_named, require
from qdialect.engines.local import output_names
from qdialect.engines.program import Program
from qdialect.errors import InputError
from qdialect.lowerings.debug_attributes import INTERFACE, marked_type
from qdialect.passes.casts.fold_interface import FLOAT_TYPE, ROUNDING
from qdialect.quant import quant_element
from qdialect.validation.translation import converted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.api import Model

    Array = NDArray[Any]

_OURS = ("nn.", "quant.", "onnx.")


def open_program(model: Model, engine: str) -> InEngine:
    """`model` in an engine that takes programs.

    A model that is not in dialects of MLIR alone is made an integer network first
    (`qopt optimize --target tosa --numerics bounded`) and lowered to TOSA.
    UnsupportedError where that has no TOSA, InputError (`no-engine`) without the engine.
    """
    require(engine)
    return InEngine(ready_model(integer_model(model)), engine)


class InEngine:
    """A model in TOSA's form (`ready_model`), lowered and run: inputs and outputs by name,
    in floats where the model's were."""

    def __init__(self, ready: Model, engine: str) -> None:
        from qdialect.cli.execution import main_function
        from qdialect.reference import argument_names

        self.engine = engine_named(engine)
        lowered = converted_model(ready)
        self.program = Program.of(lowered.module, lowered.ctx)
        self.ctx = ready.ctx
        function = main_function(ready)
        kind = function.function_type
        self.arguments, self.results = argument_names(function), output_names(function)
        self.takes = _sides(kind.inputs.data, function.arg_attrs)
        self.gives = _sides(kind.outputs.data, function.res_attrs)

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return self.all([inputs])[0]

    def all(self, samples: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """Every sample; the program is compiled once."""
        runs = self.engine.run(self.program, [self.codes(s) for s in samples])
        return [self.named(made) for made in runs]

    def named(self, made: Sequence[Array]) -> dict[str, Array]:
        """What the integer function gives as the model's outputs, by name."""
        outputs = [
            self._taken(*side, array.view(own.dtype).reshape(own.shape))
            for side, own, array in zip(self.gives, self.program.results, made, strict=True)
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

    def _taken(self, kind: Attribute, note: Mapping[str, Attribute], array: Array) -> Array:
        """A result as the model's caller gets it."""
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


def _is_ours(model: Model) -> bool:
    for op in model.module.walk():
        kinds = op.function_type if isinstance(op, FuncOp) else None
        if op.name.startswith(_OURS) or (
            kinds and any(map(quant_element, (*kinds.inputs, *kinds.outputs)))
        ):
            return True
    return False


def integer_model(model: Model, interface: bool = True, to: str = "tosa") -> Model:
    """`model` with integers inside and, if wanted, at its interface, if it has ops of ours;
    for one of `EXPORTS`."""
    from qdialect import api
    from qdialect.passes.lowering.exports import OPTIMIZED_FOR
    from qdialect.passes.pipelines import optimize_pipeline

    if not _is_ours(model):
        return model
    target = OPTIMIZED_FOR[to]
    passes = optimize_pipeline(target, "bounded") + (",fold-interface" if interface else "")
    return api.run_passes(model, passes, target=target, verify_each=False)


def ready_model(model: Model, to: str = "tosa") -> Model:
    """An integer network in the form of which every op is exact in one of `EXPORTS`."""
    from qdialect import api
    from qdialect.passes.lowering.exports import EXPORTS

    if not _is_ours(model):
        return model
    passes, _, target = EXPORTS[to]
    return api.run_passes(model, passes, target=target, verify_each=False)


def converted_model(model: Model, to: str = "tosa") -> Model:
    """The same in that dialect."""
    from qdialect import api
    from qdialect.passes.lowering.exports import EXPORTS

    if not _is_ours(model):
        return model
    _, passes, target = EXPORTS[to]
    return api.run_passes(model, passes, target=target, verify_each=False)


def lowered_model(model: Model, to: str = "tosa") -> Model:
    """An integer network in one of the dialects of `EXPORTS`."""
    return converted_model(ready_model(model, to), to)
