"""A function of codes as the list of its results.

%y = nn.table %x, %t : (tensor<8x!q>, tensor<256x!r>) -> tensor<8x!r>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qdialect.ir import behaviors
from qdialect.ir.ops.base import TENSOR, NNOp, Values, shape_of
from qdialect.ir.ops.declare import nn_op
from qdialect.ir.ops.shapes import DYNAMIC, Shape, ShapeError
from qdialect.ir.quant import quant_element

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.ir.behaviors import Behavior


WIDEST = 16
"""Bits of storage that a table may be indexed by."""


def _look_up(op: Operation, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    element = quant_element(op.operands[0].type)
    assert element is not None
    codes, table = arrays
    return table[codes.astype("int64") - element.qparams.storage.full_range[0]]


def _declare(name: str) -> Behavior:
    return behaviors.Lookup(
        name,
        (
            behaviors.Port("input", behaviors.PortKind.FIXED),
            behaviors.Port("table", behaviors.PortKind.TIED),
        ),
        (behaviors.Port("result", behaviors.PortKind.TIED),),
        on_stored=_look_up,
    )


@nn_op(_declare)
class TableOp(NNOp):
    """table[code - lowest code of the input's storage type], elementwise.

    The input is stored in at most 16 bits; the table has an entry for every code of its
    storage type, also for those outside narrowed bounds.  Table and result have the same
    qparams, per tensor.
    """

    name = "nn.table"
    input = operand_def(TENSOR)
    table = operand_def(TENSOR)
    result = result_def(TENSOR)
    traits = traits_def(Pure())

    @classmethod
    def infer(cls, operands: Sequence[Shape], values: Values) -> list[Shape]:
        if len(operands[1]) != 1:
            raise ShapeError(f"expects a table of rank 1, but got {list(operands[1])}")
        return [operands[0]]

    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        element = quant_element(self.input.type)
        if element is None or element.qparams.storage.is_float:
            raise VerifyException(f"'{self.name}' op takes codes stored as integers")
        storage = element.qparams.storage
        if storage.width > WIDEST:
            raise VerifyException(
                f"'{self.name}' op takes codes of at most {WIDEST} bits, not {storage}"
            )
        (entries,) = shape_of(self.table) if len(shape_of(self.table)) == 1 else (DYNAMIC,)
        if entries not in (DYNAMIC, 1 << storage.width):
            raise VerifyException(
                f"'{self.name}' op needs a table of {1 << storage.width} entries for "
                f"{storage.spelling} codes, not {entries}"
            )
        super().verify_()
