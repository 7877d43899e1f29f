"""Normalizations, softmax, pools and means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdialect import ops as nn
from qdialect.formats.torch.program import Node, Ref
from qdialect.formats.torch.read.builder import static
from qdialect.formats.torch.read.rows import Results, Rule, axis, pair
from qdialect.ops.shapes import DYNAMIC

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from qdialect.formats.torch.read.importer import Importer


def _filled(imp: Importer, argument: Any, shape: tuple[int, ...], like: Ref, value: float) -> Any:
    """A tensor, or one full of `value` where the program has none."""
    import numpy as np

    if argument is not None:
        return imp.value(argument)
    element = imp.kind(like)
    assert element is not None
    return imp.array_of(np.full(shape, value, np.float32), element)


def batch_norm(imp: Importer, node: Node) -> Results:
    """`batch_norm` with stored statistics."""
    arguments = node.arguments
    x = arguments["input"]
    if arguments.get("training") or not imp.is_float(x):
        return None
    if arguments.get("running_mean") is None or arguments.get("running_var") is None:
        return None
    channels = static(imp.extents(imp.value(arguments["running_mean"])))
    scale = _filled(imp, arguments.get("weight"), channels, x, 1.0)
    bias = _filled(imp, arguments.get("bias"), channels, x, 0.0)
    statistics = [imp.value(arguments[name]) for name in ("running_mean", "running_var")]
    epsilon = float(arguments.get("eps", 1e-5))
    results: list[SSAValue | None] = [
        imp.build(nn.BatchNormOp, imp.value(x), scale, bias, *statistics, epsilon=epsilon)
    ]
    return results + [None] * (len(node.results) - 1)


def layer_norm(imp: Importer, node: Node) -> Results:
    """`layer_norm` over the last dimensions."""
    arguments = node.arguments
    x = arguments["input"]
    normalized = arguments["normalized_shape"]
    if not imp.is_float(x) or not all(isinstance(n, int) for n in normalized):
        return None
    scale = _filled(imp, arguments.get("weight"), tuple(normalized), x, 1.0)
    bias = None if arguments.get("bias") is None else imp.value(arguments["bias"])
    properties = {"axis": -len(normalized), "epsilon": float(arguments.get("eps", 1e-5))}
    results: list[SSAValue | None] = [
        imp.build(nn.LayerNormOp, imp.value(x), scale, bias, **properties)
    ]
    return results + [None] * (len(node.results) - 1)


def softmax(imp: Importer, node: Node) -> Results:
    """`softmax` along one dimension, after a conversion to the type of the result."""
    name = node.results[0]
    x = node.arguments["self"]
    if not isinstance(name, str) or not imp.is_float(x):
        return None
    value = imp.cast(imp.value(x), imp.element(name))
    return [imp.build(nn.SoftmaxOp, value, axis=node.arguments["dim"])]


def _batched(imp: Importer, x: SSAValue, rank: int) -> bool:
    return len(imp.extents(x)) == rank + 2


def max_pool(rank: int) -> Rule:
    """`max_pool1d` to `max_pool3d`."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        if not imp.is_float(arguments["self"]):
            return None
        x = imp.value(arguments["self"])
        if not _batched(imp, x, rank):
            return None
        kernel = pair(arguments["kernel_size"], rank, 1)
        properties = {
            "kernel": kernel,
            "strides": pair(arguments.get("stride") or list(kernel), rank, 1),
            "pads": pair(arguments.get("padding"), rank, 0) * 2,
            "dilations": pair(arguments.get("dilation"), rank, 1),
            "ceil_mode": bool(arguments.get("ceil_mode")),
        }
        return [imp.build(nn.MAX_POOLS[rank - 1], x, **properties)]

    return rule


def average_pool(rank: int) -> Rule:
    """`avg_pool1d` to `avg_pool3d`; padding counts unless the program says otherwise."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        if not imp.is_float(arguments["self"]) or arguments.get("divisor_override") is not None:
            return None
        x = imp.value(arguments["self"])
        if not _batched(imp, x, rank):
            return None
        kernel = pair(arguments["kernel_size"], rank, 1)
        properties = {
            "kernel": kernel,
            "strides": pair(arguments.get("stride") or list(kernel), rank, 1),
            "pads": pair(arguments.get("padding"), rank, 0) * 2,
            "ceil_mode": bool(arguments.get("ceil_mode")),
            "count_include_pad": bool(arguments.get("count_include_pad", True)),
        }
        return [imp.build(nn.AVERAGE_POOLS[rank - 1], x, **properties)]

    return rule


def adaptive_average_pool(rank: int) -> Rule:
    """`adaptive_avg_pool1d` to `3d`: windows of one size where the result divides the input."""

    def rule(imp: Importer, node: Node) -> Results:
        x = imp.value(node.arguments["self"])
        sizes = pair(node.arguments["output_size"], rank, 1)
        if not imp.is_float(node.arguments["self"]) or not _batched(imp, x, rank):
            return None
        if set(sizes) == {1}:
            return [imp.build(nn.GLOBAL_AVERAGE_POOLS[rank - 1], x)]
        spatial = static(imp.extents(x)[2:])
        if DYNAMIC in spatial or any(n % size for n, size in zip(spatial, sizes, strict=True)):
            return None
        kernel = [n // size for n, size in zip(spatial, sizes, strict=True)]
        return [imp.build(nn.AVERAGE_POOLS[rank - 1], x, kernel=kernel, strides=kernel)]

    return rule


def reduce(kind: type[nn.NNOp]) -> Rule:
    """`mean`, `sum`, `amax`, `amin` over dimensions, or over all."""

    def rule(imp: Importer, node: Node) -> Results:
        arguments = node.arguments
        name = node.results[0]
        if not isinstance(name, str) or not imp.is_float(arguments["self"]):
            return None
        x = imp.cast(imp.value(arguments["self"]), imp.element(name))
        rank = len(imp.extents(x))
        dims = arguments.get("dim")
        dims = [dims] if isinstance(dims, int) else dims
        axes = [axis(d, rank) for d in dims] if dims else list(range(rank))
        keepdims = bool(arguments.get("keepdim", False))
        return [imp.build(kind, x, axes=axes, keepdims=keepdims)]

    return rule


def embedding(imp: Importer, node: Node) -> Results:
    """`embedding(weight, indices)`: rows of the weight."""
    arguments = node.arguments
    if not imp.is_float(arguments["weight"]):
        return None
    table, indices = imp.value(arguments["weight"]), imp.value(arguments["indices"])
    return [imp.build(nn.GatherOp, table, indices, axis=0)]
