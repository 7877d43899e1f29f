"""Normalizations, softmax, pools and means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdialect.ir import ops as nn
from qdialect.plugins.torch.program import Node, Ref
from qdialect.plugins.torch.read.builder import static
from qdialect.plugins.torch.read.rows import Results, axis, result

if TYPE_CHECKING:
    from xdsl.ir import SSAValue

    from qdialect.plugins.torch.read.importer import Importer


def filled(imp: Importer, argument: Any, shape: tuple[int, ...], like: Ref, value: float) -> Any:
    """A tensor, or one of `shape` full of `value` where the program has none."""
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
    scale = filled(imp, arguments.get("weight"), channels, x, 1.0)
    bias = filled(imp, arguments.get("bias"), channels, x, 0.0)
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
    scale = filled(imp, arguments.get("weight"), tuple(normalized), x, 1.0)
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


def safe_softmax(imp: Importer, node: Node) -> Results:
    """`_safe_softmax`: 0 in rows of which every element is -infinity."""
    import math

    found = softmax(imp, node)
    y = found[0] if found else None
    if y is None:
        return None
    x = imp.value(node.arguments["self"])
    d = axis(node.arguments["dim"], len(imp.extents(x)))
    element = imp.element(result(node))
    largest = imp.build(nn.ReduceMaxOp, imp.cast(x, element), axes=[d], keepdims=True)
    low = imp.scalar(-math.inf, element)
    masked = imp.emit(nn.CompareOp(largest, low, "eq")).results[0]
    return [imp.emit(nn.SelectOp(masked, imp.scalar(0.0, element), y)).results[0]]


def embedding(imp: Importer, node: Node) -> Results:
    """`embedding(weight, indices)`: rows of the weight."""
    arguments = node.arguments
    if not imp.is_float(arguments["weight"]):
        return None
    table, indices = imp.value(arguments["weight"]), imp.value(arguments["indices"])
    return [imp.build(nn.GatherOp, table, indices, axis=0)]
