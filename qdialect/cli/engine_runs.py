"""Running a model in an engine that takes TOSA: what is lowered, and what stays outside.

The integer network runs in the engine. Quantizing float inputs and dequantizing results is
done around it, by the interpreter's definition, as a caller of integer code does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region

from qdialect.dialects.quant import ROUNDING_KEY, DCastOp, QCastOp, quant_element
from qdialect.engines.installed import engine_named
from qdialect.engines.program import Program
from qdialect.errors import InputError
from qdialect.transforms.fold_interface import FLOAT_TYPE, ROUNDING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.api import Model

    Array = NDArray[Any]
    Run = Callable[[Mapping[str, Array]], dict[str, Array]]

_OURS = ("nn.", "quant.", "onnx.")


def run_in(model: Model, engine: str) -> Run:
    """A function from inputs to outputs, both by name, that runs `model` in an engine.

    A model that is not in dialects of MLIR alone is made an integer network first
    (`qopt optimize --target tosa --numerics bounded`) and lowered to TOSA.
    UnsupportedError where that has no TOSA, InputError (`no-engine`) without the engine.
    """
    from qdialect.cli.execution import main_function, output_names
    from qdialect.interpreter import argument_names

    chosen = engine_named(engine)
    integer = integer_model(model)
    lowered = lowered_model(integer)
    program = Program.of(lowered.module, lowered.ctx)
    function = main_function(integer)
    outside = _Outside(integer, function)
    arguments, results = argument_names(function), output_names(function)

    def run(inputs: Mapping[str, Array]) -> dict[str, Array]:
        for name in arguments:
            if name not in inputs:
                known = ", ".join(arguments)
                raise InputError(f"input '{name}' is missing (inputs: {known})", code="bad-input")
        codes = [outside.given(i, inputs[name]) for i, name in enumerate(arguments)]
        (made,) = chosen.run(program, [codes])
        taken = [outside.taken(i, array) for i, array in enumerate(made)]
        return dict(zip(results, taken, strict=True))

    return run


class _Outside:
    """The casts that `fold-interface` left to the caller."""

    def __init__(self, model: Model, function: FuncOp) -> None:
        self.ctx = model.ctx
        kind = function.function_type
        self.arguments = [*zip(kind.inputs, _notes(function.arg_attrs), strict=False)]
        self.results = [*zip(kind.outputs, _notes(function.res_attrs), strict=False)]
        self.arguments += [(t, {}) for t in [*kind.inputs][len(self.arguments) :]]
        self.results += [(t, {}) for t in [*kind.outputs][len(self.results) :]]

    def given(self, index: int, array: Array) -> Array:
        """An input as the integer function takes it."""
        kind, note = self.arguments[index]
        if FLOAT_TYPE not in note or array.dtype.kind != "f":
            return array
        cast = QCastOp.create
        attributes = {ROUNDING_KEY: note[ROUNDING]} if ROUNDING in note else {}
        return self._cast(cast, note[FLOAT_TYPE], kind, attributes, array)

    def taken(self, index: int, array: Array) -> Array:
        """A result as the model's caller gets it."""
        kind, note = self.results[index]
        element = quant_element(kind)
        if element is not None and not element.qparams.storage.signed:
            array = array.view(f"u{array.dtype.itemsize}")
        if FLOAT_TYPE not in note:
            return array
        return self._cast(DCastOp.create, kind, note[FLOAT_TYPE], {}, array)

    def _cast(
        self,
        make: Callable[..., Operation],
        source: Attribute,
        result: Attribute,
        attributes: Mapping[str, Attribute],
        array: Array,
    ) -> Array:
        from qdialect.interpreter import Interpreter

        block = Block(arg_types=[source])
        cast = make(operands=[block.args[0]], result_types=[result], attributes=dict(attributes))
        block.add_ops([cast, ReturnOp(cast.results[0])])
        kind = FunctionType.from_lists([source], [result])
        module = ModuleOp([FuncOp("cast", kind, Region(block))])
        return Interpreter(self.ctx, module).run([array])[0]


def _notes(attributes: ArrayAttr[DictionaryAttr] | None) -> list[Mapping[str, Attribute]]:
    return [] if attributes is None else [entry.data for entry in attributes]


def integer_model(model: Model) -> Model:
    """`model` with integers inside and at its interface, if it has ops of ours."""
    from qdialect import api
    from qdialect.transforms.pipelines import optimize_pipeline

    if not any(op.name.startswith(_OURS) for op in model.module.walk()):
        return model
    passes = f"{optimize_pipeline('tosa', 'bounded')},fold-interface"
    return api.run_passes(model, passes, target="tosa", verify_each=False)


def lowered_model(model: Model) -> Model:
    """The same in TOSA."""
    from qdialect import api
    from qdialect.transforms.pipelines import TOSA

    if not any(op.name.startswith(_OURS) for op in model.module.walk()):
        return model
    return api.run_passes(model, TOSA, target="tosa", verify_each=False)
