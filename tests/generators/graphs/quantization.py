"""Quantize, dequantize and the ops on codes of a random graph (`random_onnx`)."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper

from tests.generators.graphs.maker import FOREIGN, FOUR_BITS, SMALL, Rejected, Value

if TYPE_CHECKING:
    from tests.generators.graphs.maker import GraphMaker


def scale(g: GraphMaker, x: np.ndarray | None = None, steps: int = 255) -> float:
    """A scale as calibrators and people write them, or an extreme one."""
    largest = float(np.abs(x).max()) if x is not None and x.size else 1.0
    kind = g.random.randrange(12)
    if g.scales and kind < 3:
        return g.random.choice(g.scales)
    if kind < 7:
        found = float(np.float32(2 * largest / steps if 0 < largest < 1e30 else 0.05))
    elif kind < 9:
        found = 2.0 ** g.random.randint(-9, 1)
    else:
        found = g.random.choice((0.02, 1 / 255, 0.1, 1e-39, 1e30, 3.7e-5, 1.0, 0.0371, 7e-46))
    found = float(np.float32(found)) or 0.05
    g.scales.append(found)
    return found


def zero_point(g: GraphMaker, kind: Any) -> int:
    limits = np.iinfo(kind)
    middle = (limits.min + limits.max + 1) // 2
    return g.random.choice(
        (middle, middle, limits.min, limits.max, g.random.randint(limits.min, limits.max))
    )


def code_types(g: GraphMaker) -> tuple[Any, ...]:
    return SMALL if g.opset >= 21 else SMALL[:2]


def qparams(g: GraphMaker, x: Value | None, kind: Any, count: int | None = None) -> list[str]:
    """The names of a scale and a zero point: scalars, or one for each of `count`."""
    array, steps = (None if x is None else x.array), np.iinfo(kind).max - np.iinfo(kind).min
    if count is None:
        scales, zeros = scale(g, array, steps), zero_point(g, kind)
        shape = (1,) if g.chance(0.06) else ()
        return [
            g.constant(np.full(shape, scales, np.float32)),
            g.constant(np.full(shape, zeros, kind)),
        ]
    same = g.chance(0.2)
    scales = (
        [scale(g, array, steps)] * count if same else [scale(g, array, steps) for _ in range(count)]
    )
    zeros = [zero_point(g, kind)] * count
    return [g.constant(np.array(scales, np.float32)), g.constant(np.array(zeros, kind))]


def quantize(g: GraphMaker, label: str) -> None:
    """A quantize, and mostly the dequantize that belongs to it or one of its own."""
    x = g.pick()
    kind = g.random.choice(code_types(g) + SMALL[:2] * 2)
    axis = (
        g.random.randrange(len(x.shape)) if x.shape and g.opset >= 13 and g.chance(0.15) else None
    )
    names = qparams(g, x, kind, None if axis is None else x.shape[axis])
    extra: dict[str, Any] = {} if axis is None else {"axis": axis}
    if axis is None and kind is np.uint8 and g.chance(0.05):
        names = names[:1]
    elif axis is None and g.opset >= 21 and g.chance(0.1):
        quantize_4_bits(g, x, names[0])
        return
    first = g.node("QuantizeLinear", [x.name, *names], **extra)
    nodes = [first]
    if g.chance(0.85):
        if g.chance(0.04) and axis is None and len(names) > 1:
            names = qparams(g, x, kind)
        nodes.append(g.node("DequantizeLinear", [first.output[0], *names], **extra))
    g.add(*nodes)


def quantize_4_bits(g: GraphMaker, x: Value, name: str) -> None:
    """Through int4 or uint4, which numpy does not hold."""
    code = g.random.choice((TensorProto.INT4, TensorProto.UINT4))
    low = -8 if code == TensorProto.INT4 else 0
    shape = g.at(name).shape
    zero = helper.make_tensor(g.name(), code, shape, [g.random.choice((low, 0, 3))])
    g.initializers.append(zero)
    g.scopes[0].values.append(Value(zero.name, np.zeros(shape, object), True, zero))
    first = g.node("QuantizeLinear", [x.name, name, zero.name])
    first.doc_string = FOUR_BITS
    try:
        g.add(first, g.node("DequantizeLinear", [first.output[0], name, zero.name]))
    except Rejected:
        g.initializers.remove(zero)
        raise


def dequantize(g: GraphMaker, label: str) -> None:
    """Of codes that are there: results of integer ops, inputs, constants."""
    kinds = (*SMALL, np.int32) if g.opset >= 21 else (np.int8, np.uint8, np.int32)
    x = g.pick(kinds)
    kind = x.array.dtype.type
    per_axis = x.shape and g.opset >= 13 and g.chance(0.1)
    axis = g.random.randrange(len(x.shape)) if per_axis else None
    count = None if axis is None else x.shape[axis]
    extra: dict[str, Any] = {} if axis is None else {"axis": axis}
    names = qparams(g, None, np.int8 if kind is np.int32 else kind, count)
    if kind is np.int32:
        names = names[:1]
    g.apply("DequantizeLinear", [x.name, *names], **extra)


def codes(
    g: GraphMaker, kinds: Sequence[Any] = SMALL[:2], fits: Any = None
) -> tuple[str, list[str]]:
    """A tensor of codes with the names of a scale and a zero point."""
    x = g.pick(kinds, fits) if g.chance(0.5) else None
    if x is None:
        value = g.pick(fits=fits)
        kind = g.random.choice([k for k in kinds if k in SMALL])
        names = qparams(g, value, kind)
        return g.apply("QuantizeLinear", [value.name, *names]).name, names
    return x.name, qparams(g, None, x.array.dtype.type)


def weight(g: GraphMaker, shape: Sequence[int], axis: int) -> str:
    """Codes that a node dequantizes; now and then floats that a pair of nodes casts."""
    kind = g.random.choice((np.int8, np.int8, np.int8, np.uint8))
    per_axis = g.opset >= 13 and g.chance(0.5)
    count = shape[axis] if per_axis else None
    size = 1 / max(1.0, prod(shape) ** 0.5)
    steps = (size, 2 / 255, 0.25, 1e-39, 3e-5) if g.chance(0.1) else (size / 100, size / 60)
    zero = 0 if kind is np.int8 and g.chance(0.9) else zero_point(g, kind)
    scales = np.array([g.random.choice(steps) for _ in range(count or 1)], np.float32)
    zeros = np.full(count or 1, zero, kind)
    shape_of_both = () if count is None else (count,)
    names = [g.constant(np.resize(array, shape_of_both)) for array in (scales, zeros)]
    extra: dict[str, Any] = {} if count is None else {"axis": axis}
    if g.chance(0.15):
        floats = g.constant(g.array(shape))
        code = g.apply("QuantizeLinear", [floats, *names], **extra).name
    else:
        code = g.constant(g.array(shape, kind))
    return g.apply("DequantizeLinear", [code, *names], **extra).name


CASTS = {"weight": weight}


def integers(g: GraphMaker, count: int) -> str:
    """A bias of a product of codes."""
    return g.constant(g.numbers.integers(-300, 300, count), np.int32)


# -- ops on codes ---------------------------------------------------------------------------
# Not of nothing: the runtime's integer kernels leave a sum over no element what was in memory.


def convolution(g: GraphMaker, kind: str) -> None:
    name, params = codes(g, fits=lambda a: 3 <= a.ndim <= 5 and a.shape[1] > 0)
    x = g.at(name)
    made = g.random.choice((1, 2, 3))
    w = g.constant(
        g.array([made, x.shape[1], *(g.random.choice((1, 2)) for _ in x.shape[2:])], np.int8)
    )
    if kind == "ConvInteger":
        g.apply(kind, [name, w, params[1]])
        return
    shape = (made,) if g.chance(0.5) else ()
    weights = [g.constant(np.full(shape, 0.01, np.float32)), g.constant(np.zeros(shape, np.int8))]
    rest = [integers(g, made)] if g.chance(0.5) else []
    g.apply(kind, [name, *params, w, *weights, *qparams(g, None, x.dtype.type), *rest])


def product(g: GraphMaker, kind: str) -> None:
    name, params = codes(g, fits=lambda a: a.ndim >= 2 and a.shape[-1] > 0)
    x = g.at(name)
    made = g.random.choice((1, 2, 3))
    wkind = g.random.choice((np.int8, np.int8, np.uint8))
    w = g.constant(g.array([x.shape[-1], made], wkind))
    zero = g.constant(0 if wkind is np.int8 else 128, wkind)
    step = g.constant(0.02, np.float32)
    out = qparams(g, None, x.dtype.type)
    if kind == "MatMulInteger":
        g.apply(kind, [name, w, params[1], zero])
    elif kind == "QLinearMatMul":
        g.apply(kind, [name, *params, w, step, zero, *out])
    elif kind == "QGemm":
        rest = integers(g, made) if g.chance(0.5) else ""
        g.add(g.node(kind, [name, *params, w, step, zero, rest, *out], domain=FOREIGN))
    else:
        g.add(
            g.node(
                "MatMulIntegerToFloat", [name, w, params[0], step, params[1], zero], domain=FOREIGN
            )
        )


def dynamic(g: GraphMaker, kind: str) -> None:
    """Codes whose scale is that of the data, alone or before a product."""
    x = g.pick(fits=lambda a: a.size > 0)
    node = g.node(kind, [x.name], 3)
    if x.array.ndim < 2 or g.chance(0.3):
        g.add(node)
        return
    w = g.constant(g.array([x.shape[-1], 3], np.int8))
    zero = g.constant(0, np.int8)
    g.add(node)
    y = g.apply("MatMulInteger", [node.output[0], w, node.output[2], zero])
    floats = g.apply("Cast", [y.name], to=TensorProto.FLOAT)
    factor = g.apply("Mul", [node.output[1], g.constant(0.02, np.float32)])
    g.apply("Mul", [floats.name, factor.name])


def contributed(g: GraphMaker, kind: str) -> None:
    """Kernels of the runtime's own domain."""
    images = kind in ("QLinearAveragePool", "QLinearGlobalAveragePool")
    name, params = codes(g, fits=lambda a: a.ndim >= 3 if images else a.ndim >= 1)
    x = g.at(name)
    out, extra = qparams(g, None, x.dtype.type), dict[str, Any]()
    inputs = [name, *params, *out]
    if kind in ("QLinearAdd", "QLinearMul"):
        inputs = [name, *params, name, *qparams(g, None, x.dtype.type), *out]
        if g.chance(0.5):
            inputs[3] = g.constant(g.array(x.shape[-1:], x.dtype))
    elif kind == "QLinearConcat":
        inputs = [*out, name, *params, name, *qparams(g, None, x.dtype.type)]
        extra["axis"] = g.random.randrange(x.ndim)
    elif kind == "QLinearLeakyRelu":
        extra["alpha"] = 0.1
    elif kind == "QLinearAveragePool":
        extra["kernel_shape"] = [1] * (x.ndim - 2)
    elif kind == "QLinearGlobalAveragePool":
        extra["channels_last"] = 0
    elif kind == "QLinearSoftmax":
        extra = {"axis": -1, "opset": 13}
    g.add(g.node(kind, inputs, domain=FOREIGN, **extra))


CONTRIBUTED = ("QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat",
               "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearSoftmax")  # fmt: skip
QOPERATOR: dict[str, tuple[float, Callable[[Any, str], None]]] = {
    "quantize": (80.0, quantize),
    "dequantize": (4.0, dequantize),
    **dict.fromkeys(("QLinearConv", "ConvInteger"), (0.8, convolution)),
    **dict.fromkeys(
        ("QLinearMatMul", "MatMulInteger", "QGemm", "MatMulIntegerToFloat"), (0.8, product)
    ),
    "DynamicQuantizeLinear": (0.8, dynamic),
    **dict.fromkeys(CONTRIBUTED, (0.3, contributed)),
}  # fmt: skip
