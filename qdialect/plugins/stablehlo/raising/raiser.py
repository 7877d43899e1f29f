"""What raises StableHLO: a builder that knows what its values have become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.contract import Numerics
from qdialect.ir.context import QContext
from qdialect.ir.quant import UniformType, quant_element
from qdialect.plugins.common.lowering.laid_out import Order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Builder, Raised, inverted


class Raiser(Builder):
    """A builder that knows how far results may differ."""

    def __init__(self, session: QContext, numerics: Numerics) -> None:
        super().__init__(session)
        self.numerics = numerics
        self.ties = 0
        """How many ops may round a tie the other way."""

    def value(self, x: Raised, order: Order | None = None) -> SSAValue:
        """`x` as it is typed, with dimensions in `order` (as it lies by default)."""
        order = x.order if order is None else order
        if x.array is None:
            turned = self.in_order(x, order)
            assert turned.value is not None
            return turned.value
        element = x.element
        assert element is not None
        if isinstance(element, UniformType) and element.qparams.axis is not None:
            element = UniformType(element.qparams.with_axis(order[element.qparams.axis]))
        return self.constant(inverted(x.array, order), element)

    def rounds_ties(self, op: Operation, possible: bool) -> None:
        """Allow for ties that may round the other way; Unraisable (`ties`) under `exact`."""
        element = quant_element(op.results[0].type)
        if not possible or element is None:
            return
        if not any(z % 2 for z in element.qparams.zero_point_list()):
            return
        self.allow_ties()

    def allow_ties(self) -> None:
        """Count an op that may round a tie the other way; Unraisable (`ties`) under `exact`."""
        if self.numerics < Numerics.TIES:
            raise Unraisable("ties", "ties round the other way: its zero point is odd")
        self.ties += 1


Handler = Callable[[Raiser, Operation, Sequence[Raised]], Raised]
"""Raises an op with one result."""


def result_element(op: Operation, order: Order) -> Attribute:
    """The element type of the result of `op`, laid out in `order`."""
    kind = cast("TensorType[Any]", op.results[0].type)
    element = quant_element(kind)
    if element is not None and element.qparams.axis is not None:
        return UniformType(element.qparams.with_axis(order[element.qparams.axis]))
    return kind.element_type


def is_quantized(op: Operation) -> bool:
    """Whether any operand or result has a quantized type."""
    return any(quant_element(v.type) is not None for v in (*op.operands, *op.results))
