"""Normalizations over groups, instances and the root mean square."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.quant import element_type
from qdialect.plugins.common.extents import Extent, product
from qdialect.plugins.torch.program import Node
from qdialect.plugins.torch.read.layers import batch_norm, filled
from qdialect.plugins.torch.read.rows import Results

if TYPE_CHECKING:
    from qdialect.plugins.torch.read.importer import Importer

_ONE = Extent.of(1)


def group_norm(imp: Importer, node: Node) -> Results:
    """`group_norm`, `native_group_norm`: mean and spread of the channels of a group."""
    arguments = node.arguments
    groups = arguments.get("num_groups", arguments.get("group"))
    return _grouped(imp, node, int(groups))


def instance_norm(imp: Importer, node: Node) -> Results:
    """`instance_norm`: each channel is a group, unless statistics are stored."""
    arguments = node.arguments
    if not arguments.get("use_input_stats", True):
        return batch_norm(imp, node)
    channels = imp.extents(imp.value(arguments["input"]))[1].number
    return None if channels is None else _grouped(imp, node, channels)


def batch_statistics(imp: Importer, node: Node) -> Results:
    """`_native_batch_norm_legit` of one sample without stored statistics, which is how
    `instance_norm` is decomposed: [1, N * C, ...] with each channel a group."""
    arguments = node.arguments
    extents = imp.extents(imp.value(arguments["input"]))
    if arguments.get("running_mean") is not None or extents[0] != _ONE:
        return None
    channels = extents[1].number
    return None if channels is None else _grouped(imp, node, channels)


def _grouped(imp: Importer, node: Node, groups: int) -> Results:
    """x as [N * groups, the rest], normalized over the rest; then weight and bias of channels."""
    arguments = node.arguments
    if not imp.is_float(arguments["input"]) or any(imp.reads(node, k) for k in (1, 2)):
        return None
    x = imp.value(arguments["input"])
    extents = imp.extents(x)
    each = product(tuple(extents[1:])).over(Extent.of(groups))
    if each is None or len(extents) < 2:
        return None
    flat = imp.reshape(x, (extents[0], Extent.of(groups), each))
    mean = imp.build(nn.ReduceMeanOp, flat, axes=[2], keepdims=True)
    around = imp.build(nn.SubOp, flat, mean)
    squares = imp.build(nn.MulOp, around, around)
    variance = imp.build(nn.ReduceMeanOp, squares, axes=[2], keepdims=True)
    y = imp.build(nn.DivOp, around, _root(imp, variance, float(arguments.get("eps", 1e-5))))
    y = imp.reshape(y, extents)
    shape = (extents[1], *[_ONE] * (len(extents) - 2))
    for name, kind in (("weight", nn.MulOp), ("bias", nn.AddOp)):
        if arguments.get(name) is not None:
            y = imp.build(kind, y, imp.reshape(imp.value(arguments[name]), shape))
    return [y, *[None] * (len(node.results) - 1)]


def _root(imp: Importer, value: SSAValue, eps: float) -> SSAValue:
    return imp.build(
        nn.SqrtOp, imp.build(nn.AddOp, value, imp.scalar(eps, element_type(value.type)))
    )


def rms_norm(imp: Importer, node: Node) -> Results:
    """`rms_norm`, `_fused_rms_norm` over the last dimensions."""
    import numpy as np

    from qdialect.ir.ops.constants import element_name

    arguments = node.arguments
    if not imp.is_float(arguments["input"]) or imp.reads(node, 1):
        return None
    x = imp.value(arguments["input"])
    shape = arguments["normalized_shape"]
    name = element_name(element_type(x.type))
    epsilon = {"f64": 2.0**-52, "f16": 2.0**-10}.get(name, float(np.finfo(np.float32).eps))
    given = arguments.get("eps")
    scale = filled(imp, arguments.get("weight"), tuple(shape), arguments["input"], 1.0)
    epsilon = epsilon if given is None else float(given)
    y = imp.build(nn.RmsNormOp, x, scale, axis=-len(shape), epsilon=epsilon)
    return [y, *[None] * (len(node.results) - 1)]


def weight_norm(imp: Importer, node: Node) -> Results:
    """`_weight_norm`: v times g over the length of v, for each place of one dimension."""
    from qdialect.plugins.torch.read.reductions import by_node

    arguments = node.arguments
    if not imp.is_float(arguments["v"]) or imp.reads(node, 1):
        return None
    v, g = imp.value(arguments["v"]), imp.value(arguments["g"])
    dim: Any = arguments.get("dim", 0)
    axes = [d for d in range(len(imp.extents(v))) if d != dim]
    scale = imp.build(nn.DivOp, g, by_node(imp, "ReduceL2", v, axes, True))
    return [imp.build(nn.MulOp, v, scale), *[None] * (len(node.results) - 1)]
