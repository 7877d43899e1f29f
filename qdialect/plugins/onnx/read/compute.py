"""Ops that compute: on floats, as ONNX defines them; integer forms stay ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, SSAValue

from qdialect.errors import InputError
from qdialect.ir import ops as nn
from qdialect.ir.ops.shapes import DYNAMIC
from qdialect.ir.quant import UniformType, element_type
from qdialect.ir.quant.elements import FLOATS
from qdialect.plugins.onnx.read.clipped_codes import clip_of_codes
from qdialect.plugins.onnx.read.movement import movable
from qdialect.plugins.onnx.read.node import Node
from qdialect.plugins.onnx.read.types import extents
from qdialect.plugins.onnx.read.windows import (
    Window,
    pool_window,
    transposed_properties,
    window_properties,
)

if TYPE_CHECKING:
    from qdialect.plugins.onnx.read.importer import Importer

Results = list[SSAValue] | None
Rule = Callable[["Importer", Node], Results]
Extents = tuple[int, ...]

_RANKS = range(3, 6)
"""Ranks of tensors with one to three spatial dimensions."""


def float_shapes(imp: Importer, names: Sequence[str]) -> list[tuple[int, ...]] | None:
    """The shapes of tensors if all are ranked and of one float type, else None."""
    kinds = [imp.type_of(name) for name in names]
    if not all(isinstance(kind, TensorType) for kind in kinds):
        return None
    ranked = [cast("TensorType[Attribute]", kind) for kind in kinds]
    elements = {kind.element_type for kind in ranked}
    if len(elements) != 1 or not elements <= FLOATS:
        return None
    return [extents(kind) for kind in ranked]


# -- elementwise --------------------------------------------------------------------


def same(kind: type[Any], operands: int = 1, **defaults: float) -> Rule:
    """An op with the same meaning and the same attributes; `defaults` are ONNX's."""

    def rule(imp: Importer, node: Node) -> Results:
        shapes = float_shapes(imp, node.inputs)
        if len(node.inputs) != operands or shapes is None:
            return None
        if imp.opset < 7 and node.get("broadcast", 0):
            return None
        properties = {name: node.get(name, value) for name, value in defaults.items()}
        values = [imp.value(name) for name in node.inputs]
        return [imp.build(kind, *values, output=node.output(0), **properties)]

    return rule


def total(imp: Importer, node: Node) -> Results:
    """`Sum` of two values, or of one, which is that value."""
    if len(node.inputs) == 1 and float_shapes(imp, node.inputs) is not None:
        return [imp.value(node.input(0))]
    return same(nn.AddOp, 2)(imp, node)


def extremum(kind: type[Any]) -> Rule:
    """`Max` or `Min` of any number of values, two by two: floats, or quantized values of
    one encoding."""

    def rule(imp: Importer, node: Node) -> Results:
        if not node.inputs or any(movable(imp, name) is None for name in node.inputs):
            return None
        if len({element_type(imp.type_of(name)) for name in node.inputs}) != 1:
            return None
        *values, last = [imp.value(name) for name in node.inputs]
        if not values:
            return [last]
        result = values[0]
        for value in values[1:]:
            result = imp.emit(kind(result, value)).results[0]
        return [imp.build(kind, result, last, output=node.output(0))]

    return rule


def clip(imp: Importer, node: Node) -> Results:
    """`Clip` with constant bounds (inputs, or attributes before opset 11), of floats or codes."""
    if float_shapes(imp, node.inputs[:1]) is None:
        return clip_of_codes(imp, node)
    bounds: dict[str, float] = {}
    for position, name in ((1, "min"), (2, "max")):
        given = node.get(name, None)
        if node.input(position):
            array = imp.static(node.input(position))
            if array is None or array.size != 1 or array.dtype.kind != "f":
                return None
            given = float(array.reshape(-1)[0])
        if given is not None:
            if given != given:
                return None
            bounds[name] = given
    return [imp.build(nn.ClipOp, imp.value(node.input(0)), output=node.output(0), **bounds)]


def gelu(imp: Importer, node: Node) -> Results:
    """`Gelu`, exact or with tanh."""
    form = node.get("approximate", "none")
    if float_shapes(imp, node.inputs) is None or form not in ("none", "tanh"):
        return None
    x = imp.value(node.input(0))
    return [imp.build(nn.GeluOp, x, output=node.output(0), approximate=form)]


def prelu(imp: Importer, node: Node) -> Results:
    """`PRelu`; its slope broadcasts to the input."""
    shapes = float_shapes(imp, node.inputs)
    if shapes is None or imp.opset < 7 or len(shapes[1]) > len(shapes[0]):
        return None
    values = [imp.value(name) for name in node.inputs]
    return [imp.build(nn.PReluOp, *values, output=node.output(0))]


def power(imp: Importer, node: Node) -> Results:
    """`Pow` with one constant exponent for all elements."""
    if float_shapes(imp, node.inputs[:1]) is None or imp.opset < 7:
        return None
    array = imp.static(node.input(1))
    rank = len(extents(cast("TensorType[Attribute]", imp.type_of(node.input(0)))))
    if array is None or array.size != 1 or array.dtype.kind not in "fiu" or array.ndim > rank:
        return None
    exponent = float(array.reshape(-1)[0])
    if not isfinite(exponent):
        return None
    x = imp.value(node.input(0))
    wider = element_type(x.type) == f32 and array.dtype.itemsize + (array.dtype.kind != "f") > 4
    if wider and exponent not in (0, 1, 2, 3):
        return None  # the runtime computes with floats of 64 bits
    return [imp.build(nn.PowOp, x, output=node.output(0), exponent=exponent)]


def softmax(imp: Importer, node: Node) -> Results:
    """`Softmax`; before opset 13 it normalizes all dimensions from `axis` on."""
    shapes = float_shapes(imp, node.inputs)
    if shapes is None:
        return None
    axis = int(node.get("axis", -1 if imp.opset >= 13 else 1))
    if imp.opset < 13 and axis not in (-1, len(shapes[0]) - 1):
        return None
    return [imp.build(nn.SoftmaxOp, imp.value(node.input(0)), output=node.output(0), axis=axis)]


def lrn(imp: Importer, node: Node) -> Results:
    """`LRN` over channels."""
    shapes = float_shapes(imp, node.inputs)
    size = int(node.get("size", 0))
    if shapes is None or len(shapes[0]) < 2 or size < 1:
        return None
    properties = {
        name: float(node.get(name, _single(default)))
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    }
    x = imp.value(node.input(0))
    return [imp.build(nn.LrnOp, x, output=node.output(0), size=size, **properties)]


def batch_norm(imp: Importer, node: Node) -> Results:
    """`BatchNormalization` with stored statistics."""
    training = node.get("training_mode", 0) or not node.get("spatial", 1)
    if training or len(node.outputs) != 1 or float_shapes(imp, node.inputs) is None:
        return None
    if imp.opset < 7 and not node.get("is_test", 0):
        return None
    values = [imp.value(name) for name in node.inputs]
    epsilon = float(node.get("epsilon", _single(1e-5)))
    return [imp.build(nn.BatchNormOp, *values, output=node.output(0), epsilon=epsilon)]


def layer_norm(imp: Importer, node: Node) -> Results:
    """`LayerNormalization` whose statistics nobody uses, and `RMSNormalization`.

    In models of opsets before it, as ONNX Runtime takes them, it stays a node: written as one
    of opset 17 it would raise the opset of all others.
    """
    names = [name for name in node.inputs if name]
    if imp.opset < 17:
        return None
    if any(node.outputs[1:]) or int(node.get("stash_type", 1)) != 1:
        return None
    shapes = float_shapes(imp, names)
    if shapes is None or len(names) != len(node.inputs) or not shapes[0]:
        return None
    values = [imp.value(name) for name in names]
    properties = {"axis": int(node.get("axis", -1)), "epsilon": node.get("epsilon", _single(1e-5))}
    kind = nn.RmsNormOp if node.op_type == "RMSNormalization" else nn.LayerNormOp
    return [imp.build(kind, *values, output=node.output(0), **properties)]


def attention(imp: Importer, node: Node) -> Results:
    """`Attention` on four dimensions, as many heads everywhere, without a cache; masks of
    floats only."""
    names = [name for name in node.inputs if name]
    modes = ("is_causal", "softcap", "qk_matmul_output_mode", "softmax_precision")
    if any(node.outputs[1:]) or any(node.get(name, None) for name in modes):
        return None
    if set(node.attributes) - {*modes, "scale", "q_num_heads", "kv_num_heads"}:
        return None  # windows, and what later opsets add
    shapes = float_shapes(imp, names)
    if shapes is None or len(names) > 4 or any(node.inputs[4:]):
        return None
    query, key, value = shapes[:3]
    if {len(query), len(key), len(value)} != {4} or query[3] == DYNAMIC:
        return None
    heads = {query[1], key[1], value[1]}
    scale = float(node.get("scale", query[3] ** -0.5))
    if len(heads) != 1 or DYNAMIC in heads or not scale > 0:
        return None
    values = [imp.value(name) for name in names]
    return [imp.build(nn.AttentionOp, *values, output=node.output(0), scale=scale)]


def _single(value: float) -> float:
    """The float32 nearest to `value`, which is what an ONNX default is."""
    import numpy as np

    return float(np.float32(value))


# -- contractions ---------------------------------------------------------------------


def conv(imp: Importer, node: Node) -> Results:
    """`Conv` with one to three spatial dimensions; automatic padding becomes explicit."""
    found = _convolution(imp, node)
    if found is None:
        return None
    names, spatial, kernel = found
    window = window_properties(node, spatial, kernel)
    if window is None:
        return None
    return _build_convolution(imp, node, nn.CONVOLUTIONS[len(kernel) - 1], names, window)


def conv_transpose(imp: Importer, node: Node) -> Results:
    """`ConvTranspose` likewise; a wanted output shape becomes explicit padding."""
    found = _convolution(imp, node)
    if found is None:
        return None
    names, spatial, kernel = found
    window = transposed_properties(node, spatial, kernel)
    if window is None:
        return None
    return _build_convolution(imp, node, nn.TRANSPOSED[len(kernel) - 1], names, window)


def _convolution(imp: Importer, node: Node) -> tuple[list[str], Extents, Extents] | None:
    """Operands, spatial extents and kernel; None if we have no op of this form."""
    names = [name for name in node.inputs if name]
    shapes = float_shapes(imp, names)
    if shapes is None or len(shapes) < 2:
        return None
    kernel = _kernel(node, shapes)
    return None if kernel is None else (names, shapes[0][2:], kernel)


def convolution_window(node: Node, shapes: Sequence[Extents]) -> Window | None:
    """Strides, dilations and pads of a convolution of operands of these shapes; None if
    we have no op of this form."""
    kernel = _kernel(node, shapes)
    return None if kernel is None else window_properties(node, shapes[0][2:], kernel)


def _kernel(node: Node, shapes: Sequence[Extents]) -> Extents | None:
    if DYNAMIC in shapes[1] or len(shapes[0]) not in _RANKS or len(shapes[1]) != len(shapes[0]):
        return None
    kernel = shapes[1][2:]
    if node.get("kernel_shape", kernel) != kernel:
        raise InputError(
            f"kernel_shape {list(node.get('kernel_shape', ()))} is not the weight's {list(kernel)}",
            where=node.where,
            code="invalid-node",
        )
    return kernel


def _build_convolution(
    imp: Importer, node: Node, kind: type[Any], names: Sequence[str], window: Window
) -> Results:
    values = [imp.value(name) for name in names]
    groups = int(node.get("group", 1))
    return [imp.build(kind, *values, output=node.output(0), groups=groups, **window)]


# -- pooling ----------------------------------------------------------------------------


def max_pool(imp: Importer, node: Node) -> Results:
    """`MaxPool` over spatial dimensions, on floats or stored integers."""
    kind = imp.type_of(node.input(0))
    if not isinstance(kind, TensorType):
        return None
    ranked = cast("TensorType[Attribute]", kind)
    element = ranked.element_type
    quantized = isinstance(element, UniformType) and element.qparams.is_per_tensor
    if not quantized and element not in FLOATS:
        return None
    if len(node.outputs) != 1 or node.get("storage_order", 0):
        return None
    return _pool(imp, node, extents(ranked), nn.MAX_POOLS)


def average_pool(imp: Importer, node: Node) -> Results:
    """`AveragePool` over spatial dimensions."""
    shapes = float_shapes(imp, node.inputs)
    if shapes is None:
        return None
    include = node.flag("count_include_pad", False)
    return _pool(imp, node, shapes[0], nn.AVERAGE_POOLS, count_include_pad=include)


def _pool(
    imp: Importer, node: Node, shape: tuple[int, ...], kinds: Sequence[type[Any]], **more: Any
) -> Results:
    window = pool_window(node, shape)
    if window is None:
        return None
    kind = kinds[len(shape) - 3]
    x = imp.value(node.input(0))
    return [imp.build(kind, x, output=node.output(0), **window, **more)]


def global_average_pool(imp: Importer, node: Node) -> Results:
    """`GlobalAveragePool` over spatial dimensions."""
    shapes = float_shapes(imp, node.inputs)
    if shapes is None or len(shapes[0]) not in _RANKS:
        return None
    kind = nn.GLOBAL_AVERAGE_POOLS[len(shapes[0]) - 3]
    return [imp.build(kind, imp.value(node.input(0)), output=node.output(0))]
