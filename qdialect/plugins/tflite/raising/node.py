"""One op of a file as its handler reads it: options, operands, results and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from qdialect.algebra.qparams import QParams
from qdialect.ir.ops import shape_of
from qdialect.ir.ops.base import to_python
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tflite.dialect import TfliteNodeOp
from qdialect.plugins.tflite.raising.values import Constant

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Node:
    """An op and what its inputs are, None for those that are absent."""

    op: TfliteNodeOp
    inputs: Sequence[Raised | None]

    @property
    def name(self) -> str:
        """The schema's name of the op."""
        return self.op.op.data

    # -- options ----------------------------------------------------------------------

    def option(self, name: str, default: Any = None) -> Any:
        """An option as a Python value; `default` where it is not stated."""
        found = self.op.options.data.get(name)
        return default if found is None else to_python(found)

    def flag(self, name: str) -> bool:
        """An option that is true or false."""
        return bool(self.option(name, False))

    def number(self, name: str, default: int = 0) -> int:
        """An option that is an integer."""
        return int(self.option(name, default))

    def real(self, name: str, default: float = 0.0) -> float:
        """An option that is a real number."""
        return float(self.option(name, default))

    @property
    def activation(self) -> str:
        """The schema's name of the fused activation function."""
        return str(self.option("fused_activation_function", "NONE"))

    # -- operands ---------------------------------------------------------------------

    def has(self, place: int) -> bool:
        """Whether there is an input at `place`."""
        return place < len(self.inputs) and self.inputs[place] is not None

    def input(self, place: int) -> Raised:
        """An input; Unraisable (`operands`) where there is none."""
        found = self.inputs[place] if place < len(self.inputs) else None
        if found is None:
            raise Unraisable("operands", f"it has no input #{place}")
        return found

    def array(self, place: int) -> NDArray[Any]:
        """The elements of an input as the file has them; Unraisable (`not-constant`)."""
        found = self.input(place)
        if found.array is None:
            raise Unraisable("not-constant", f"input #{place} is no constant")
        return found.array

    def integers(self, place: int) -> list[int]:
        """The integers in a constant input."""
        return [int(n) for n in self.array(place).reshape(-1)]

    # -- results ----------------------------------------------------------------------

    def kind(self, index: int = 0) -> Attribute:
        """The element type of a result, as the file lays it out."""
        return cast("TensorType[Any]", self.op.results[index].type).element_type

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The shape of a result, as the file lays it out; -1 where it is not known."""
        return shape_of(self.op.results[index])

    def params(self, index: int = 0) -> QParams | None:
        """The qparams of a result; None of plain numbers."""
        element = quant_element(self.op.results[index].type)
        return None if element is None else element.qparams


def params_of(x: Raised) -> QParams | None:
    """The qparams of a value, or of a constant as the file lays it out."""
    from qdialect.ir.quant import UniformType

    if x.array is None:
        return x.params
    return x.element.qparams if isinstance(x.element, UniformType) else None


def kind_of(x: Raised) -> str:
    """The element type of plain numbers as text: `f32`, `i64`; empty for quantized ones."""
    if isinstance(x, Constant) and x.is_dequantized:
        return "f32"
    return "" if params_of(x) is not None else str(x.kind)


def is_float(x: Raised) -> bool:
    """Whether a value is of floats."""
    return kind_of(x) in ("f32", "f16", "bf16", "f64")


def is_plain_integer(x: Raised) -> bool:
    """Whether a value is of integers that stand for themselves."""
    return kind_of(x)[:1] in ("i", "u", "s") and kind_of(x) != "i1"
