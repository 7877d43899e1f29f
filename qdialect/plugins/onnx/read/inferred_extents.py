"""The extents of results of `nn` ops that are more than copies of extents: broadcasts, products
and sums of extents, and windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from qdialect.ir import ops as nn
from qdialect.ir.ops import NNOp, shape_of
from qdialect.ir.ops.contraction import ConvolutionOp
from qdialect.ir.ops.elementwise import BinaryOp, ExtremumOp
from qdialect.ir.ops.pooling import WindowOp
from qdialect.ir.ops.shapes import DYNAMIC, normalize_axis
from qdialect.plugins.common.extents import Extent, broadcast, product

Extents = Sequence[Extent]
Inferred = Sequence[Extent | None] | None
Rule = Callable[[NNOp, Sequence[Extents]], Inferred]


def _broadcast(op: NNOp, operands: Sequence[Extents]) -> Inferred:
    return broadcast(operands)


def _matmul(op: NNOp, operands: Sequence[Extents]) -> Inferred:
    a, b = operands
    if min(len(a), len(b)) < 2:
        return None
    return [*broadcast([a[:-2], b[:-2]]), a[-2], b[-1]]


def _reshape(op: NNOp, operands: Sequence[Extents]) -> Inferred:
    target = op.values.get("shape") or shape_of(op.results[0])
    numbers = [Extent.of(n) for n in target]
    return target_extents(operands[0], numbers, op.values.get("shape") is None)


def _flatten(op: NNOp, operands: Sequence[Extents]) -> Inferred:
    x, axis = tuple(operands[0]), op.values["axis"]
    return [product(x[:axis]), product(x[axis:])]


def _concat(op: NNOp, operands: Sequence[Extents]) -> Inferred:
    axis = normalize_axis(op.values["axis"], len(operands[0]))
    total = Extent.of(0)
    for extents in operands:
        total = total + extents[axis]
    others = [[*extents[:axis], total, *extents[axis + 1 :]] for extents in operands]
    # Of extents that are equal on every run that does not fail, the first.
    return others[0]


def _window(op: NNOp, operands: Sequence[Extents]) -> Inferred:
    """A window slid over the spatial dimensions; `ceil_mode` is not followed."""
    v, x = op.values, operands[0]
    convolves = isinstance(op, ConvolutionOp)
    kernel = [e.number for e in operands[1][2:]] if convolves else list(v["kernel"])
    first = [x[0], operands[1][0]] if convolves else list(x[:2])
    if v.get("ceil_mode") or None in kernel:
        return [*first, *[None] * len(kernel)]
    spatial: list[Extent | None] = []
    for d, size in enumerate(cast("list[int]", kernel)):
        more = v["pads"][d] + v["pads"][d + len(kernel)] - v["dilations"][d] * (size - 1) - 1
        places = x[d + 2] + Extent.of(more)
        stride = Extent.of(v["strides"][d])
        steps = places if stride.number == 1 else places.made("div", stride)
        spatial.append(steps + Extent.of(1))
    return [*first, *spatial]


def target_extents(
    source: Sequence[Extent], target: Sequence[Extent], allowzero: bool
) -> list[Extent | None]:
    """The extents of a `Reshape`; None where they are not known."""
    extents: list[Extent | None] = []
    for d, extent in enumerate(target):
        if extent.number == 0 and not allowzero:
            extents.append(source[d] if d < len(source) else None)
        else:
            extents.append(None if extent.number == DYNAMIC else extent)
    if extents.count(None) == 1:
        others = product(tuple(e for e in extents if e is not None))
        extents[extents.index(None)] = product(tuple(source)).over(others)
    return extents


RULES: Sequence[tuple[Any, Rule]] = (
    ((BinaryOp, ExtremumOp, nn.CompareOp, nn.SelectOp), _broadcast),
    (nn.MatMulOp, _matmul),
    (nn.ReshapeOp, _reshape),
    (nn.FlattenOp, _flatten),
    (nn.ConcatOp, _concat),
    ((ConvolutionOp, WindowOp), _window),
)
"""By class of op."""
