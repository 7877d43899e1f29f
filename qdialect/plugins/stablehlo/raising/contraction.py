"""Products and convolutions with any dimension numbers.

A transpose is written only where `nn` insists on an order that the operand does not have:
constants are laid out as expected, and values keep the order of the op before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.dialects.attributes import integer_of, integers_of, pairs_of, required
from qdialect.ir.ops import ReshapeOp, shape_of
from qdialect.ir.ops.base import NNOp
from qdialect.ir.quant import UniformType, quant_element
from qdialect.ir.verify.verifier import op_error
from qdialect.plugins.common.lowering.laid_out import Order, identity_order
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.stablehlo.dialect import ConvolutionDimensionsAttr
from qdialect.plugins.stablehlo.raising.elementwise import in_floats
from qdialect.plugins.stablehlo.raising.facts import qparams, record
from qdialect.plugins.stablehlo.raising.integer_form import read_as, signless_width, unit_codes
from qdialect.plugins.stablehlo.raising.raiser import Handler, Raiser, is_quantized, result_element

_CONVOLUTIONS = {1: nn.Conv1DOp, 2: nn.Conv2DOp, 3: nn.Conv3DOp}
_TRANSPOSED = {1: nn.ConvTranspose1DOp, 2: nn.ConvTranspose2DOp, 3: nn.ConvTranspose3DOp}


def _computed(
    r: Raiser,
    op: Operation,
    kind: type[NNOp],
    values: Sequence[SSAValue],
    order: Order,
    properties: Mapping[str, Any],
) -> SSAValue:
    """The op, on quantized types if `nn` has it on them, else on floats between casts."""
    element: Attribute = result_element(op, order)
    if str(element).startswith("i") and not is_quantized(op):
        return _summed(r, op, kind, values, properties)
    if not is_quantized(op):
        return r.op(kind, *values, element=element, **properties)
    r.rounds_ties(op, True)
    count = len(r.operations)
    if isinstance(element, UniformType) and all(quant_element(v.type) is not None for v in values):
        found = r.op(kind, *values, element=element, **properties)
        if op_error(r.operations[-1]) is None:
            return found
        r.forget(count)

    def make(r: Raiser, *floats: SSAValue, element: Any) -> SSAValue:
        return r.op(kind, *floats, element=element, **properties)

    return in_floats(r, make, values, element)


def _summed(
    r: Raiser,
    op: Operation,
    kind: type[NNOp],
    values: Sequence[SSAValue],
    properties: Mapping[str, Any],
) -> SSAValue:
    """Products of 8-bit integers, summed in 32 bits: codes on scale 1."""
    widths = [signless_width(v.type) for v in (*op.operands, *op.results)]
    if widths != [8, 8, 32]:
        raise Unraisable("type", "nn sums products of 8-bit integers in 32 bits")
    codes = [unit_codes(r, Raised(identity_order(len(shape_of(v))), v)) for v in values]
    sums = UniformType(QParams.per_tensor("i32", 1.0))
    out = r.op(kind, *(r.value(c) for c in codes), element=sums, **properties)
    return r.value(read_as(r, Raised(identity_order(len(shape_of(out))), out), i32))


def _order(roles: Sequence[str], expected: Sequence[str]) -> Order:
    """Where each dimension goes that has a role: dimension d is `expected.index(roles[d])`."""
    return tuple(expected.index(role) for role in roles)


def convolution(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`nn.conv*`, or `nn.conv_transpose*` where the input is dilated."""
    layouts = cast("ConvolutionDimensionsAttr", required(op, "dimension_numbers")).data
    spatial = [str(d) for d in range(len(layouts[0]) - 2)]
    rank = len(spatial)
    if rank not in _CONVOLUTIONS:
        raise Unraisable("rank", f"it has {rank} spatial dimensions")
    if integer_of(op, "batch_group_count", 1) != 1:
        raise Unraisable("batch-groups", "it groups its batch")
    ones = (1,) * rank
    strides = integers_of(op, "window_strides", ones)
    base = integers_of(op, "lhs_dilation", ones)
    dilations = integers_of(op, "rhs_dilation", ones)
    pads = pairs_of(op, "padding", rank)
    groups = integer_of(op, "feature_group_count", 1)
    x, w = operands
    x_order = _order(layouts[0], ("b", "f", *spatial))
    w_order = _order(layouts[1], ("o", "i", *spatial))
    order = _order(layouts[2], ("b", "f", *spatial))
    flips = [d for d, flip in enumerate(integers_of(op, "window_reversal", (0,) * rank)) if flip]
    if base != ones:
        return _transposed(
            r, op, (x, x_order), (w, layouts[1]), order, (strides, base, dilations, pads, groups)
        )
    w = _flipped(r, w, [layouts[1].index(str(d)) for d in flips])
    properties: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "pads": [*(max(a, 0) for a, _ in pads), *(max(b, 0) for _, b in pads)],
        "groups": groups,
    }
    value = _cropped(r, r.value(x, x_order), pads)
    out = _computed(r, op, _CONVOLUTIONS[rank], [value, r.value(w, w_order)], order, properties)
    return Raised(order, out)


def _cropped(r: Raiser, x: SSAValue, pads: Sequence[tuple[int, int]]) -> SSAValue:
    """Without what negative padding cuts off."""
    if all(a >= 0 and b >= 0 for a, b in pads):
        return x
    shape = shape_of(x)
    starts = [0, 0, *(max(-a, 0) for a, _ in pads)]
    stops = [*shape[:2], *(n - max(-b, 0) for n, (_, b) in zip(shape[2:], pads, strict=True))]
    return r.op(nn.SliceOp, x, starts=starts, stops=stops, steps=[1] * len(shape))


def _flipped(r: Raiser, w: Raised, dims: Sequence[int]) -> Raised:
    if not dims:
        return w
    if w.array is not None:
        return Raised(w.order, None, np.flip(w.array, tuple(dims)), w.element)
    return Raised(w.order, r.op(nn.FlipOp, r.value(w), axes=[w.order[d] for d in dims]))


def _transposed(
    r: Raiser,
    op: Operation,
    x: tuple[Raised, Order],
    w: tuple[Raised, Sequence[str]],
    order: Order,
    geometry: tuple[Any, ...],
) -> Raised:
    """A convolution of a dilated input: each element of it adds a kernel to the result."""
    (given, x_order), (weight, layout) = x, w
    strides, base, dilations, pads, groups = geometry
    rank = len(base)
    if strides != (1,) * rank or groups != 1:
        raise Unraisable("dilation", "it dilates its input and has strides or groups")
    reach = [(weight.shape[layout.index(str(d))] - 1) * dilations[d] for d in range(rank)]
    low = [reach[d] - pads[d][0] for d in range(rank)]
    high = [reach[d] - pads[d][1] for d in range(rank)]
    extra = [max(-h, 0) for h in high]
    if min(low) < 0 or any(e >= s for e, s in zip(extra, base, strict=True)):
        raise Unraisable("pads", "it puts more around its input than the kernel reaches")
    reversed_already = integers_of(op, "window_reversal", (0,) * rank)
    dims = [layout.index(str(d)) for d in range(rank) if not reversed_already[d]]
    weight = _flipped(r, weight, dims)
    spatial = [str(d) for d in range(rank)]
    values = [
        r.value(given, x_order),
        r.value(weight, _order(layout, ("i", "o", *spatial))),
    ]
    properties: dict[str, Any] = {
        "strides": base,
        "dilations": dilations,
        "pads": [*low, *(max(h, 0) for h in high)],
        "output_padding": extra,
    }
    return Raised(order, _computed(r, op, _TRANSPOSED[rank], values, order, properties))


# -- products -----------------------------------------------------------------------


def dot_general(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`nn.matmul` of stacks of matrices, `nn.fully_connected` with a constant matrix of codes."""
    numbers = record(op, "dot_dimension_numbers")
    batch = numbers["lhs_batching_dimensions"], numbers["rhs_batching_dimensions"]
    contracting = numbers["lhs_contracting_dimensions"], numbers["rhs_contracting_dimensions"]
    return product(r, op, operands, batch, contracting)


def dot(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """`stablehlo.dot`: the last dimension of the left factor with the first of the right."""
    return product(r, op, operands, ((), ()), ((operands[0].rank - 1,), (0,)))


def product(
    r: Raiser,
    op: Operation,
    operands: Sequence[Raised],
    batch: tuple[Sequence[int], Sequence[int]],
    contracting: tuple[Sequence[int], Sequence[int]],
) -> Raised:
    """Batches first, then what is left of the left factor, then of the right one."""
    lhs, rhs = operands
    free = [
        [d for d in range(x.rank) if d not in batch[i] and d not in contracting[i]]
        for i, x in enumerate(operands)
    ]
    batches = tuple(lhs.shape[d] for d in batch[0])
    rows = tuple(lhs.shape[d] for d in free[0])
    columns = tuple(rhs.shape[d] for d in free[1])
    inner = prod(lhs.shape[d] for d in contracting[0])
    left = _matrices(r, lhs, (*batch[0], *free[0], *contracting[0]))
    right = _matrices(r, rhs, (*batch[1], *contracting[1], *free[1]))
    # One matrix on the right takes any number of rows as they are.
    keep_rows = not batches and len(contracting[0]) == 1 and len(rows) >= 1
    if not keep_rows:
        left = _reshaped(r, left, (*batches, prod(rows), inner))
    right = _reshaped(r, right, (*batches, inner, prod(columns)))
    shape = (*batches, *rows, *columns)
    order = identity_order(len(shape))
    element = result_element(op, order)
    if isinstance(element, UniformType) and element.qparams.axis not in (None, len(shape) - 1):
        raise Unraisable("axis", "the parameters of its result vary along a row")
    if (
        isinstance(element, UniformType)
        and element.qparams.axis is not None
        and (len(columns) != 1 or not (keep_rows or len(rows) == 1))
    ):
        raise Unraisable("axis", "it reshapes what has parameters along a dimension")
    found = _computed(r, op, nn.MatMulOp, [left, right], _matrix_order(op, left, right), {})
    return Raised(order, _reshaped(r, found, shape))


def _matrix_order(op: Operation, left: SSAValue, right: SSAValue) -> Order:
    """The order that says where parameters along the last dimension are, before the result
    is reshaped."""
    rank = max(len(shape_of(left)), len(shape_of(right)))
    own = len(cast("TensorType[Any]", op.results[0].type).get_shape())
    return (*range(own - 1), rank - 1) if own else ()


def _matrices(r: Raiser, x: Raised, dims: Sequence[int]) -> SSAValue:
    """`x` with its dimensions in this order."""
    return r.value(x, tuple(list(dims).index(d) for d in range(x.rank)))


def _reshaped(r: Raiser, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    if shape_of(value) == tuple(shape):
        return value
    params = qparams(Raised(identity_order(len(shape_of(value))), value))
    if params is not None and not params.is_per_tensor:
        raise Unraisable("axis", "it reshapes what has parameters along a dimension")
    return r.append(ReshapeOp(value, list(shape))).results[0]


HANDLERS: Mapping[str, Handler] = {
    "stablehlo.convolution": convolution,
    "stablehlo.dot": dot,
    "stablehlo.dot_general": dot_general,
}
