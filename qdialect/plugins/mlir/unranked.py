"""Upstream ops on unranked tensors, which xDSL lacks or defines for ranked ones only."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

_TENSOR = BaseAttr(TensorType) | BaseAttr(UnrankedTensorType)


@irdl_op_definition
class ShapeOfOp(IRDLOperation):
    """The extents of a tensor as a tensor of `index`, here of unknown length."""

    name = "shape.shape_of"

    arg = operand_def(_TENSOR)
    result = result_def(TensorType.constr(IndexType()))

    traits = traits_def(Pure())

    assembly_format = "$arg attr-dict `:` type($arg) `->` type($result)"

    def __init__(self, arg: SSAValue) -> None:
        extents: TensorType[Attribute] = TensorType(IndexType(), [DYNAMIC_INDEX])
        super().__init__(operands=[arg], result_types=[extents])


@irdl_op_definition
class NumElementsOp(IRDLOperation):
    """The product of extents."""

    name = "shape.num_elements"

    shape = operand_def(TensorType.constr(IndexType()))
    result = result_def(IndexType())

    traits = traits_def(Pure())

    assembly_format = "$shape attr-dict `:` type($shape) `->` type($result)"

    def __init__(self, shape: SSAValue) -> None:
        super().__init__(operands=[shape], result_types=[IndexType()])


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """`tensor.reshape`: the elements of `source` in row-major order on another shape."""

    name = "tensor.reshape"

    source = operand_def(_TENSOR)
    shape = operand_def(TensorType)
    result = result_def(_TENSOR)

    traits = traits_def(Pure())

    assembly_format = (
        "$source `(` $shape `)` attr-dict `:` `(` type($source) `,` type($shape) `)` "
        "`->` type($result)"
    )

    def __init__(self, source: SSAValue, shape: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[source, shape], result_types=[result_type])


Shape = Dialect("shape", [ShapeOfOp, NumElementsOp])
