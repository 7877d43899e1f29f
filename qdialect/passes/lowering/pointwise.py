"""Building one element-wise computation in `arith`, on scalars and tensors alike.

The computation is written once, on scalars.  On a scalar it is emitted in place; on a
ranked tensor, with static or unknown extents, as the body of a `linalg.generic`; an
unranked tensor is reshaped to rank 1 and back.  Parameters that vary over the tensor
(one per index of an axis, one per cell of a block grid) become constant tensors that
the `linalg.generic` reads through `d` or `d floordiv block`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    AnyTensorType,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from qdialect.algebra.qparams import Layout, QParams
from qdialect.ir.quant import element_type, storage_type, with_element
from qdialect.plugins.mlir.unranked import NumElementsOp, ReshapeOp, ShapeOfOp
from qdialect.rewrite import Rewriter

Scalar = IntegerType | IndexType | AnyFloat
Number = int | float


class Body:
    """Where the ops of the computation go; `cells` says how parameters vary."""

    def __init__(self, block: Block, cells: int) -> None:
        self.block = block
        self.cells = cells
        self.fields: list[tuple[Sequence[Number], Scalar]] = []
        #: constants that the computation looks things up in, which go before it
        self.tables: list[arith.ConstantOp] = []

    def add(self, op: Operation) -> SSAValue:
        """Append `op`; its only result."""
        self.block.add_op(op)
        return op.results[0]

    def constant(self, value: Number, type: Scalar) -> SSAValue:
        """A number as a constant of the body."""
        return self.add(_scalar_constant(value, type))

    def parameter(self, values: Sequence[Number], type: Scalar) -> SSAValue:
        """The value of the element's cell; `values` has one entry per cell, row-major."""
        if len(set(values)) == 1:
            return self.constant(values[0], type)
        self.fields.append((values, type))
        return self.block.insert_arg(type, len(self.block.args) - 1)

    def entry(self, values: Sequence[Number], type: Scalar, number: SSAValue) -> SSAValue:
        """The entry of this number, an integer that is not negative, of a table."""
        table = arith.ConstantOp(_dense(values, [len(values)], type))
        self.tables.append(table)
        index = self.add(arith.IndexCastOp(number, IndexType()))
        return self.add(tensor.ExtractOp(table.result, [index], type))


Computation = Callable[[Body, SSAValue], SSAValue]
"""Appends ops to a body that compute the result of one element, and returns it."""


def element_wise(
    source: SSAValue,
    result: Scalar,
    layout: QParams | None,
    compute: Computation,
    emit: Callable[[Operation], None],
) -> SSAValue:
    """`compute` on every element of `source`; `emit` inserts each new op.

    `layout` is the encoding along whose cells the parameters vary, None when they do
    not vary.
    """
    if isinstance(source.type, UnrankedTensorType):
        return _unranked(source, result, compute, emit)
    if isinstance(source.type, TensorType):
        return _ranked(source, result, layout, compute, emit)
    block = Block(arg_types=[source.type])
    body = Body(block, 1)
    value = compute(body, block.args[0])
    block.args[0].replace_all_uses_with(source)
    for table in body.tables:
        emit(table)
    for op in list(block.ops):
        op.detach()
        emit(op)
    return value


def emitter(rewriter: Rewriter, before: Operation) -> Callable[[Operation], None]:
    """Inserts ops before `before`."""
    return lambda op: rewriter.insert(op, before)


def clamped(body: Body, value: SSAValue, wide: IntegerType, params: QParams) -> SSAValue:
    """An integer of type `wide` clamped to the storage bounds."""
    low, high = (body.constant(bound, wide) for bound in (params.storage.min, params.storage.max))
    return body.add(arith.MinSIOp(body.add(arith.MaxSIOp(value, low)), high))


def narrowed(body: Body, value: SSAValue, params: QParams) -> SSAValue:
    """An integer within the storage bounds as the storage holds it."""
    return body.add(arith.TruncIOp(value, storage_type(params)))


def _ranked(
    source: SSAValue,
    result: Scalar,
    layout: QParams | None,
    compute: Computation,
    emit: Callable[[Operation], None],
) -> SSAValue:
    tensor_type = cast("AnyTensorType", source.type)
    shape = tensor_type.get_shape()
    block = Block(arg_types=[element_type(tensor_type), result])
    body = Body(block, 1 if layout is None else layout.count)
    value = compute(body, block.args[0])
    block.add_op(YieldOp(value))
    fields: list[SSAValue] = []
    for table in body.tables:
        emit(table)
    for values, kind in body.fields:
        assert layout is not None
        field = arith.ConstantOp(_dense(values, layout.grid, kind))
        emit(field)
        fields.append(field.result)
    empty = tensor.EmptyOp(_dynamic_extents(source, shape, emit), with_element(tensor_type, result))
    emit(empty)
    rank = len(shape)
    whole = AffineMapAttr(AffineMap.identity(rank))
    cell = AffineMapAttr(cell_map(layout, rank)) if layout is not None else whole
    op = GenericOp(
        [source, *fields],
        [empty.tensor],
        Region(block),
        [whole, *[cell] * len(fields), whole],
        [IteratorTypeAttr(IteratorType.PARALLEL)] * rank,
        [empty.tensor.type],
    )
    emit(op)
    return op.results[0]


def cell_map(layout: QParams, rank: int) -> AffineMap:
    """From the indices of an element to those of its cell in the parameter tensor."""
    dims = [AffineExpr.dimension(axis) for axis in range(rank)]
    if layout.layout is Layout.AXIS:
        return AffineMap(rank, 0, (dims[layout.blocks[0][0]],))
    blocks = dict(layout.blocks)
    zero = AffineExpr.constant(0)
    indices = [
        zero if layout.grid[axis] == 1 else _divided(dim, blocks[axis])
        for axis, dim in enumerate(dims)
    ]
    return AffineMap(rank, 0, tuple(indices))


def _divided(dim: AffineExpr, block: int) -> AffineExpr:
    return dim if block == 1 else dim // block


def _unranked(
    source: SSAValue,
    result: Scalar,
    compute: Computation,
    emit: Callable[[Operation], None],
) -> SSAValue:
    """Through rank 1: only for parameters that do not vary."""
    sizes = ShapeOfOp(source)
    emit(sizes)
    count = NumElementsOp(sizes.result)
    emit(count)
    flat_shape = tensor.FromElementsOp(count.result)
    emit(flat_shape)
    flat_type = TensorType(element_type(source.type), [DYNAMIC_INDEX])
    flat = ReshapeOp(source, flat_shape.result, flat_type)
    emit(flat)
    done = _ranked(flat.result, result, None, compute, emit)
    back = ReshapeOp(done, sizes.result, UnrankedTensorType(result))
    emit(back)
    return back.result


def _dynamic_extents(
    source: SSAValue, shape: Sequence[int], emit: Callable[[Operation], None]
) -> list[SSAValue]:
    extents: list[SSAValue] = []
    for axis, size in enumerate(shape):
        if size == DYNAMIC_INDEX:
            index = arith.ConstantOp(IntegerAttr(axis, IndexType()))
            emit(index)
            extent = tensor.DimOp(source, index.result)
            emit(extent)
            extents.append(extent.result)
    return extents


def _scalar_constant(value: Number, type: Scalar) -> arith.ConstantOp:
    if isinstance(type, IntegerType | IndexType):
        return arith.ConstantOp(IntegerAttr(int(value), type))
    return arith.ConstantOp(FloatAttr(float(value), cast(Any, type)))


def _dense(
    values: Sequence[Number], grid: Sequence[int], type: Scalar
) -> DenseIntOrFPElementsAttr[Any]:
    kind: Any = TensorType(type, grid)
    return DenseIntOrFPElementsAttr.from_list(kind, cast(Any, list(values)))
