"""Shapes with symbols: reshapes as `nn` says them, and sizes as numbers of a run.

view(x: [s0, s1, 64], [s0, s1, 4, 16])   ->  nn.reshape, copying the first two
arange(s1)                               ->  Shape of the argument that has s1, then Range
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import BlockArgument, SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.base import ranked, tensor_type
from qdialect.ir.quant.elements import is_tensor
from qdialect.plugins.common.extents import Extent, product, reshape_entries

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.builder import Builder


def reshaped(imp: Builder, value: SSAValue, target: tuple[Extent, ...]) -> SSAValue:
    """`value` with the extents `target`: the value itself, an `nn.reshape`, an `nn.flatten`, or
    an `nn.reshape_to` with extents that the run computes."""
    source = imp.extents(value)
    if source == target:
        return value
    entries = reshape_entries(source, target, True)
    if entries is not None:
        result = imp.emit(nn.ReshapeOp(value, entries)).results[0]
    elif len(target) == 2 and (axis := _flattens(source, target)) is not None:
        result = imp.build(nn.FlattenOp, value, axis=axis)
    elif all(extent.number is not None for extent in target):
        numbers = [int(extent.number or 0) for extent in target]
        kind = ranked(tensor_type(value).element_type, numbers)
        result = imp.emit(nn.ReshapeOp.create(operands=[value], result_types=[kind])).results[0]
    else:
        kind = ranked(tensor_type(value).element_type, [-1] * len(target))
        shape = run_time_shape(imp, target)
        op = nn.ReshapeToOp(value, shape, result_types=[kind], allowzero=True)
        result = imp.emit(op).results[0]
    imp.state(result, target)
    return result


def _flattens(source: tuple[Extent, ...], target: tuple[Extent, ...]) -> int | None:
    return next(
        (
            axis
            for axis in range(len(source) + 1)
            if target == (product(source[:axis]), product(source[axis:]))
        ),
        None,
    )


def run_time_shape(imp: Builder, extents: tuple[Extent, ...]) -> SSAValue:
    """A vector of i64: each extent as the run has it."""
    parts = [vector_of(imp, extent) for extent in extents]
    if len(parts) == 1:
        return parts[0]
    return imp.onnx("Concat", parts, TensorType(i64, [len(parts)]), axis=0)


def run_time_number(imp: Builder, extent: Extent) -> SSAValue:
    """A tensor of rank 0 and i64; InputError where no argument has a symbol of it."""
    import numpy as np

    if extent.number is not None:
        return imp.scalar(extent.number)
    vector = vector_of(imp, extent)
    shape = imp.constant(np.zeros(0, np.int64), i64)
    return imp.onnx("Reshape", [vector, shape], TensorType(i64, []))


def vector_of(imp: Builder, extent: Extent) -> SSAValue:
    """A vector of one i64 with the number that `extent` is on a run.

    InputError (`unsupported`) where that is no polynomial of extents that arguments have.
    """
    import numpy as np

    kind = TensorType(i64, [1])
    total: SSAValue | None = None
    for names, factor in extent.terms or (((), 0),):
        term = None if factor == 1 and names else imp.constant(np.array([factor], np.int64), i64)
        for name in names:
            symbol = _symbol(imp, name)
            term = symbol if term is None else imp.onnx("Mul", [term, symbol], kind)
        assert term is not None
        total = term if total is None else imp.onnx("Add", [total, term], kind)
    assert total is not None
    return total


def _symbol(imp: Builder, name: str) -> SSAValue:
    """The extent of an argument that is this symbol and nothing else."""
    expected = Extent(((((name,)), 1),))
    for argument in imp.block.args:
        if is_tensor(argument.type) and expected in imp.extents(argument):
            return _extent_of(imp, argument, imp.extents(argument).index(expected))
    raise imp.unsupported(
        f"needs the size '{name.lstrip('@')}', which is no extent of an input: "
        "sizes that depend on data are not supported"
    )


def _extent_of(imp: Builder, argument: BlockArgument, dimension: int) -> SSAValue:
    kind = TensorType(i64, [1])
    return imp.onnx("Shape", [argument], kind, start=dimension, end=dimension + 1)
