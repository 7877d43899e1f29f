"""What a dialect offers for float forms: loops over elements, reductions, matrix products.

Each dialect that a module is lowered to has one subclass. With it the ops of `floats.rows` are
lowered; convolutions and pools, whose windows each dialect has in its own way, stand beside
their integer forms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import inf
from typing import Literal

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from qdialect.ir.ops.base import NNOp
from qdialect.plugins.common.lowering.emitter import BaseEmitter, integer_type, storage_of
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.floats.algebra import Algebra
from qdialect.plugins.common.lowering.laid_out import LaidOut, identity_order

Compute = Callable[[Algebra, Sequence[SSAValue]], SSAValue]
"""An element of the result, of one element of each operand."""
Reduction = Literal["max", "min", "sum"]


class FloatWriter(ABC):
    """Writes float ops with the emitter of a dialect."""

    def __init__(self, emitter: BaseEmitter) -> None:
        self.emitter = emitter

    @abstractmethod
    def computed(
        self,
        operands: Sequence[LaidOut],
        shape: Sequence[int],
        element: Attribute,
        compute: Compute,
    ) -> LaidOut:
        """What `compute` gives of operands that broadcast to `shape`; `element` is the type of
        the result, and the algebra is of the last operand's."""

    @abstractmethod
    def reduced(self, name: Reduction, x: LaidOut, axes: Sequence[int]) -> LaidOut:
        """Over dimensions that stay, with extent 1."""

    @abstractmethod
    def product(self, lhs: LaidOut, rhs: LaidOut) -> LaidOut:
        """Of matrices in the last two dimensions, the others broadcast as in numpy."""

    @abstractmethod
    def window_sums(self, op: NNOp, x: LaidOut) -> LaidOut:
        """The sum over each window of a pool; pads are 0."""

    @abstractmethod
    def taken(self, x: LaidOut, dimension: int, index: Sequence[int]) -> LaidOut:
        """The indices `index` of a dimension, one after the other."""

    def stored(self, element: Attribute) -> Attribute:
        """The element type that tensors have in place of one of `nn`."""
        return element

    def shaped(self, x: LaidOut, shape: Sequence[int]) -> LaidOut:
        """The elements in row-major order with another shape."""
        if tuple(shape) == x.shape:
            return x
        order = identity_order(len(shape))
        if x.array is not None:
            return LaidOut(tuple(shape), order, x.params, None, x.array.reshape(shape))
        value = self.emitter.reshaped(self.emitter.value_of(x), shape)
        return LaidOut(tuple(shape), order, x.params, value)


def idle(name: Reduction, element: Attribute) -> float:
    """What a reduction starts with: 0, or what no element is beyond."""
    if name == "sum":
        return 0
    if (integer := integer_type(element)) is not None:
        reach = 1 << (integer.width.data - 1)
        return -reach if name == "max" else reach - 1
    return -inf if name == "max" else inf


def arithmetic_element(x: LaidOut) -> Attribute:
    """The element type that is computed in; Unlowerable for codes and for truth values."""
    element = storage_of(x)
    if x.params is not None:
        raise Unlowerable("no-integers", "it has no form on integers", "compute-in-floats")
    if element == i1:
        raise Unlowerable("type", "it computes with truth values")
    return element
