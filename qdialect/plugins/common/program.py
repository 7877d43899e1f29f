"""The input of an engine: a module as text, the function to call, and its argument types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp

from qdialect.errors import InputError
from qdialect.ir.quant import quant_element, storage_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.ir.context import QContext

    Array = NDArray[Any]


@dataclass(frozen=True)
class Tensor:
    """An argument or result: shape and numpy type of the stored elements."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    element: str

    @staticmethod
    def of(kind: Any) -> Tensor:
        """Of a TOSA or builtin tensor type, or one of quantized elements, which are stored
        integers; InputError (`engine-type`) for others."""
        quantized = quant_element(kind)
        element = str(
            cast("TensorType[Any]", kind).element_type
            if quantized is None
            else storage_type(quantized.qparams)
        )
        if element[:1] == "i" and element[1:].isdigit():
            width = int(element[1:])
            dtype = np.dtype(np.bool_) if width == 1 else np.dtype(f"i{max(width, 8) // 8}")
        elif element in ("f32", "f16", "f64"):
            dtype = np.dtype(f"f{int(element[1:]) // 8}")
        else:
            raise InputError(f"engines take no tensors of {element}", code="engine-type")
        return Tensor(tuple(kind.get_shape()), dtype, element)

    @property
    def text(self) -> str:
        """As MLIR writes it."""
        return f"tensor<{''.join(f'{n}x' for n in self.shape)}{self.element}>"


@dataclass(frozen=True)
class Program:
    """A module as generic MLIR text, and the one function in it."""

    text: str
    function: str
    arguments: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    #: for each result the first that is the same value
    first: tuple[int, ...] = ()

    @staticmethod
    def of(module: ModuleOp, ctx: QContext) -> Program:
        """Of a module of dialects that MLIR has; its function is `main` or the only one."""
        from qdialect.plugins.mlir.write import module_text

        functions = [op for op in module.ops if isinstance(op, FuncOp)]
        named = [f for f in functions if f.sym_name.data == "main"] or functions
        if len(named) != 1:
            raise InputError(
                f"an engine runs one function, not {len(functions)}", code="engine-function"
            )
        (function,) = named
        kind = function.function_type
        last = function.body.blocks[0].last_op
        returned = [] if last is None else list(last.operands)
        return Program(
            module_text(module, ctx, generic=True, inline_weights=True),
            function.sym_name.data,
            tuple(Tensor.of(t) for t in kind.inputs),
            tuple(Tensor.of(t) for t in kind.outputs),
            tuple(returned.index(value) for value in returned),
        )

    def checked(self, inputs: Sequence[Array]) -> list[Array]:
        """The inputs as the function takes them; InputError (`bad-input`)."""
        if len(inputs) != len(self.arguments):
            raise InputError(
                f"the function takes {len(self.arguments)} inputs, not {len(inputs)}",
                code="bad-input",
            )
        arrays: list[Array] = []
        for index, (array, argument) in enumerate(zip(inputs, self.arguments, strict=True)):
            if array.shape != argument.shape:
                raise InputError(
                    f"input #{index} has shape {list(array.shape)}, not {list(argument.shape)}",
                    code="bad-input",
                )
            if array.dtype.kind == "u" and argument.dtype.kind == "i":
                array = array.view(argument.dtype)
            arrays.append(np.ascontiguousarray(array, argument.dtype))
        return arrays


class Engine(Protocol):
    """Something that runs programs."""

    @property
    def name(self) -> str:
        """The name in `engines.table.ENGINES`."""
        ...

    def missing(self) -> str | None:
        """What is not installed, or None."""
        ...

    def run(self, program: Program, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The results of each sample; InputError if the engine fails."""
        ...
