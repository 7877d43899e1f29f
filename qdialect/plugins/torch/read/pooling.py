"""Pools: windows of a size, and windows that give a size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import element_type
from qdialect.plugins.common.extents import Extent
from qdialect.plugins.torch.program import Node
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.rows import Results, Rule, pair

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

_ONE = Extent.of(1)


def batched(imp: Importer, x: SSAValue, rank: int) -> tuple[SSAValue, bool] | None:
    """`x` with a batch in front, and whether that is new; None for another rank."""
    extents = imp.extents(x)
    if len(extents) == rank + 2:
        return x, False
    if len(extents) == rank + 1:
        return imp.reshape(x, (_ONE, *extents)), True
    return None


def unbatched(imp: Importer, y: SSAValue, added: bool) -> SSAValue:
    """`y` without the batch that was added."""
    return imp.reshape(y, imp.extents(y)[1:]) if added else y


def _window(node: Node, rank: int) -> dict[str, Any]:
    arguments = node.arguments
    kernel = pair(arguments["kernel_size"], rank, 1)
    return {
        "kernel": kernel,
        "strides": pair(arguments.get("stride") or list(kernel), rank, 1),
        "pads": pair(arguments.get("padding"), rank, 0) * 2,
        "ceil_mode": bool(arguments.get("ceil_mode")),
    }


def max_pool(rank: int) -> Rule:
    """`max_pool1d` to `max_pool3d`; with indices, if nobody reads these."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        if not imp.is_float(arguments["self"]) or imp.reads(node, 1):
            return None
        given = batched(imp, imp.value(arguments["self"]), rank)
        if given is None:
            return None
        x, added = given
        dilations = pair(arguments.get("dilation"), rank, 1)
        y = imp.build(nn.MAX_POOLS[rank - 1], x, **_window(node, rank), dilations=dilations)
        return [unbatched(imp, y, added), *[None] * (len(node.results) - 1)]

    return rule


def average_pool(rank: int) -> Rule:
    """`avg_pool1d` to `avg_pool3d`; padding counts unless the program says otherwise."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        if not imp.is_float(arguments["self"]):
            return None
        given = batched(imp, imp.value(arguments["self"]), rank)
        if given is None:
            return None
        x, added = given
        window = _window(node, rank)
        window["count_include_pad"] = bool(arguments.get("count_include_pad", True))
        divisor = arguments.get("divisor_override")
        if divisor is not None:
            if window["ceil_mode"]:
                return None
            window["count_include_pad"] = True
        y = imp.build(nn.AVERAGE_POOLS[rank - 1], x, **window)
        if divisor is not None:
            factor = math.prod(window["kernel"]) / divisor
            y = imp.build(nn.MulOp, y, imp.scalar(factor, element_type(y.type)))
        return [unbatched(imp, y, added)]

    return rule


def adaptive_pool(rank: int, kind: str) -> Rule:
    """`adaptive_avg_pool1d` to `3d` and `adaptive_max_pool*d`: one pool where windows are equal,
    else a part of the result for each window, one dimension after the other."""

    def rule(imp: Importer, node: Node) -> Results:
        argument = node.arguments["self"]
        if not imp.is_float(argument) or (kind == "max" and imp.reads(node, 1)):
            return None
        given = batched(imp, imp.value(argument), rank)
        if given is None:
            return None
        x, added = given
        spatial = imp.extents(x)[2:]
        asked: Any = node.arguments["output_size"]
        if not isinstance(asked, list):
            asked = [asked]
        listed: list[Any] = asked * rank if len(asked) == 1 else asked  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
        sizes = [
            extent if size is None else imp.number(size)
            for size, extent in zip(listed, spatial, strict=True)
        ]
        y = _adaptive(imp, x, [None if s is None else s.number for s in sizes], rank, kind)
        if y is None:
            return None
        return [unbatched(imp, y, added), *[None] * (len(node.results) - 1)]

    return rule


def _adaptive(
    imp: Importer, x: SSAValue, sizes: list[int | None], rank: int, kind: str
) -> SSAValue | None:
    if set(sizes) == {1}:
        if kind == "avg":
            return imp.build(nn.GLOBAL_AVERAGE_POOLS[rank - 1], x)
        return imp.build(nn.ReduceMaxOp, x, axes=list(range(2, rank + 2)), keepdims=True)
    spatial = static(imp.extents(x)[2:])
    known = [size for size in sizes if size]
    if DYNAMIC in spatial or len(known) != rank:
        return None
    pools = nn.MAX_POOLS if kind == "max" else nn.AVERAGE_POOLS
    if not any(n % size for n, size in zip(spatial, known, strict=True)):
        kernel = [n // size for n, size in zip(spatial, known, strict=True)]
        return imp.build(pools[rank - 1], x, kernel=kernel, strides=kernel)
    for d, (n, size) in enumerate(zip(spatial, known, strict=True)):
        x = _windows(imp, x, d + 2, n, size, kind)
    return x


def _windows(imp: Importer, x: SSAValue, d: int, n: int, size: int, kind: str) -> SSAValue:
    """Result k of dimension d is over the elements from floor(k n / size) to
    ceil((k + 1) n / size)."""
    if n == size:
        return x
    rank = len(imp.extents(x))
    parts: list[SSAValue] = []
    reduction = nn.ReduceMaxOp if kind == "max" else nn.ReduceMeanOp
    for k in range(size):
        starts, stops = [0] * rank, [2**63 - 1] * rank
        starts[d], stops[d] = k * n // size, -(-(k + 1) * n // size)
        part = imp.build(nn.SliceOp, x, starts=starts, stops=stops, steps=[1] * rank)
        parts.append(imp.build(reduction, part, axes=[d], keepdims=True))
    return parts[0] if size == 1 else imp.build(nn.ConcatOp, *parts, axis=d)
