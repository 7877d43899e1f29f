"""The kernel table against the installed ONNX Runtime.

Each kernel runs in a model of one quantized op and is compared with the exact
result in real arithmetic, rounded half even.  Away from ties (a thousandth of a
step) it must agree exactly; at ties it may be one step off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx_models import BOUNDS, STORAGE_DTYPES, Array, export, steps
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from qdialect.backends.onnx import OrtEngine
from qdialect.backends.onnx.kernels import KERNELS, refusal
from qdialect.context import QContext, new_context
from qdialect.dialects import nn
from qdialect.dialects.quant import RescaleOp, UniformType
from qdialect.qparams.encoding import QParams

SHAPE = (2, 6, 8, 10)
BYTES = ("u8", "i8")


def encoding(storage: str, scale: float, zero: int) -> UniformType:
    """Per tensor; `zero` is counted from the middle of the storage."""
    middle = 128 if storage == "u8" else 0
    return UniformType(QParams.per_tensor(storage, float(np.float32(scale)), middle + zero))


def stored(rng: np.random.Generator, shape: tuple[int, ...], storage: str) -> Array:
    bounds = BOUNDS[storage]
    dtype = STORAGE_DTYPES[storage]
    return rng.integers(bounds.min, bounds.max + 1, shape).astype(dtype)


def real(values: Array, element: UniformType) -> Array:
    q = element.qparams
    scales, zeros = q.scale_array(), q.zero_point_array()
    if q.axis is not None:
        shape = [1] * values.ndim
        shape[q.axis] = -1
        scales, zeros = scales.reshape(shape), zeros.reshape(shape)
    return (values.astype(np.float64) - zeros) * scales


class Graph:
    """A function of quantized arguments."""

    def __init__(self, *arguments: tuple[UniformType, tuple[int, ...]]) -> None:
        self.ctx: QContext = new_context()
        self.block = Block(arg_types=[TensorType(e, shape) for e, shape in arguments])

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, values: Array, element: UniformType) -> SSAValue:
        return self.add(nn.make_constant(values, element, self.ctx.blobs))

    def module(self, result: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(result))
        kind = FunctionType.from_lists([a.type for a in self.block.args], [result.type])
        module = ModuleOp([FuncOp("f", kind, Region(self.block))])
        module.verify()
        return module

    def run(
        self, result: SSAValue, inputs: list[Array], want: list[str], numerics: Any = "ties"
    ) -> Array:
        """The one result, from ONNX Runtime; `want` are the op types of the model."""
        model = export(self.ctx, self.module(result), "qoperator", numerics=numerics)
        assert [node.op_type for node in model.graph.node] == want
        engine = OrtEngine(model, optimize=False)
        feeds = dict(zip(engine.inputs, inputs, strict=True))
        return engine.run(feeds)[engine.outputs[0]]


def check(got: Array, exact: Array, element: UniformType, tie: int = 1) -> None:
    q = element.qparams
    largest, off_tie = steps(got, exact, q.scale, q.zero_point, q.storage.spelling)
    assert off_tie == 0
    assert largest <= tie


UNARY: dict[str, tuple[Any, dict[str, Any], Callable[[Array], Array]]] = {
    "nn.sigmoid": (nn.SigmoidOp, {}, lambda x: 1 / (1 + np.exp(-x))),
    "nn.leaky_relu": (nn.LeakyReluOp, {"alpha": 0.1}, lambda x: np.where(x >= 0, x, 0.1 * x)),
    "nn.global_avg_pool2d": (
        nn.GlobalAvgPool2DOp,
        {},
        lambda x: x.mean((2, 3), keepdims=True),
    ),
}


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("seed", range(4))
def test_unary(name: str, storage: str, seed: int) -> None:
    kind, properties, function = UNARY[name]
    rng = np.random.default_rng(seed)
    x = encoding(storage, 0.01 + 0.05 * rng.random(), int(rng.integers(-60, 60)))
    y = encoding(storage, 0.004 + 0.01 * rng.random(), int(rng.integers(-128, 60)))
    g = Graph((x, SHAPE))
    result = g.add(kind(g.block.args[0], element=y, **properties))
    q = stored(rng, SHAPE, storage)
    got = g.run(result, [q], [KERNELS[name].op_type])
    check(got, function(real(q, x)), y)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("seed", range(4))
def test_softmax_is_one_step_low(storage: str, seed: int) -> None:
    """Far from ties too, so that it is only used where that is allowed."""
    rng = np.random.default_rng(seed)
    x = encoding(storage, 0.01 + 0.05 * rng.random(), int(rng.integers(-60, 60)))
    y = encoding(storage, 0.004 + 0.01 * rng.random(), int(rng.integers(-128, 60)))
    q = stored(rng, SHAPE, storage)
    exact = softmax(real(q, x))
    for numerics, types in (
        ("bounded", ["QLinearSoftmax"]),
        ("ties", ["DequantizeLinear", "Softmax", "QuantizeLinear"]),
    ):
        g = Graph((x, SHAPE))
        result = g.add(nn.SoftmaxOp(g.block.args[0], element=y, axis=1))
        got = g.run(result, [q], types, numerics=numerics)
        largest, off_tie = steps(got, exact, y.qparams.scale, y.qparams.zero_point, storage)
        assert largest <= 1
        assert off_tie == (1 if numerics == "bounded" else 0)


def windows(x: Array, v: dict[str, Any]) -> Array:
    """Average pooling in real arithmetic."""
    top, left, bottom, right = v.get("pads", (0, 0, 0, 0))
    kernel, strides = v["kernel"], v.get("strides", (1, 1))
    out = []
    height, width = x.shape[2:]
    ceil, include = v.get("ceil_mode", False), v.get("count_include_pad", False)
    ranges = []
    for size, k, s, before, after in (
        (height, kernel[0], strides[0], top, bottom),
        (width, kernel[1], strides[1], left, right),
    ):
        span = size + before + after - k
        count = (-(-span // s) if ceil else span // s) + 1
        if ceil and (count - 1) * s >= size + before:
            count -= 1
        starts = [i * s - before for i in range(count)]
        ranges.append([range(start, min(start + k, size + after)) for start in starts])
    for rows in ranges[0]:
        line = []
        for columns in ranges[1]:
            inside = [r for r in rows if 0 <= r < height], [c for c in columns if 0 <= c < width]
            total = x[:, :, inside[0]][:, :, :, inside[1]].sum((2, 3))
            area = len(rows) * len(columns) if include else len(inside[0]) * len(inside[1])
            line.append(total / area)
        out.append(line)
    return np.moveaxis(np.array(out), (0, 1), (2, 3))


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize(
    "window",
    [
        {"kernel": (2, 2), "strides": (2, 2)},
        {"kernel": (3, 3), "pads": (1, 1, 1, 1)},
        {"kernel": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": True},
        {"kernel": (3, 2), "strides": (2, 3), "pads": (0, 1, 1, 0), "ceil_mode": True},
    ],
)
def test_average_pool(storage: str, window: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x, y = encoding(storage, 0.03, 10), encoding(storage, 0.02, -5)
    g = Graph((x, SHAPE))
    result = g.add(nn.AvgPool2DOp(g.block.args[0], element=y, **window))
    q = stored(rng, SHAPE, storage)
    check(g.run(result, [q], ["QLinearAveragePool"]), windows(real(q, x), window), y)


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("op", ["nn.add", "nn.mul"])
@pytest.mark.parametrize("other", [SHAPE, (6, 1, 1), (10,), ()])
def test_binary(storage: str, op: str, other: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a, b, y = encoding(storage, 0.021, 9), encoding(storage, 0.037, -40), encoding(storage, 0.06, 3)
    g = Graph((a, SHAPE), (b, other))
    kind, function = (nn.AddOp, np.add) if op == "nn.add" else (nn.MulOp, np.multiply)
    result = g.add(kind(*g.block.args, element=y))
    qa, qb = stored(rng, SHAPE, storage), stored(rng, other, storage)
    got = g.run(result, [qa, qb], [KERNELS[op].op_type])
    check(got, function(real(qa, a), real(qb, b)), y)


def weight_encoding(storage: str, channels: int, axis: int, kind: str) -> UniformType:
    middle = 128 if storage == "u8" else 0
    if kind == "tensor":
        return encoding(storage, 0.02, 5)
    scales = [float(np.float32(v)) for v in np.linspace(0.01, 0.03, channels)]
    offsets = range(channels) if kind == "different" else [0] * channels
    return UniformType(QParams.per_axis(storage, axis, scales, [middle + n for n in offsets]))


def bias_encoding(x: UniformType, w: UniformType, axis: int = 0) -> UniformType:
    scales = [float(np.float32(x.qparams.scale * s)) for s in w.qparams.scale_list()]
    if w.qparams.is_per_tensor:
        return UniformType(QParams.per_tensor("i32", scales[0]))
    return UniformType(QParams.per_axis("i32", axis, scales))


PAIRS = [("u8", "i8"), ("u8", "u8"), ("i8", "i8")]
CHANNELS = ["tensor", "channel", "different"]


@pytest.mark.parametrize("storages", PAIRS)
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("depthwise", [False, True])
def test_conv(storages: tuple[str, str], channels: str, depthwise: bool) -> None:
    rng = np.random.default_rng(2)
    storage, weights = storages
    x, y = encoding(storage, 0.02, 11), encoding(storage, 0.25, -20)
    w = weight_encoding(weights, 6, 0, channels)
    b = bias_encoding(x, w)
    g = Graph((x, SHAPE))
    qw = stored(rng, (6, 1 if depthwise else 6, 3, 3), weights)
    qb = rng.integers(-3000, 3000, 6).astype(np.int32)
    op = nn.Conv2DOp(
        g.block.args[0],
        g.constant(qw, w),
        g.constant(qb, b),
        element=y,
        pads=(1, 1, 1, 1),
        groups=6 if depthwise else 1,
    )
    q = stored(rng, SHAPE, storage)
    got = g.run(g.add(op), [q], ["QLinearConv"])
    padded = np.pad(real(q, x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    rw = real(qw, w)
    exact = np.zeros(SHAPE)
    for i in range(3):
        for j in range(3):
            part = padded[:, :, i : i + 8, j : j + 10]
            if depthwise:
                exact += part * rw[:, 0, i, j][None, :, None, None]
            else:
                exact += np.einsum("nchw,oc->nohw", part, rw[:, :, i, j])
    check(got, exact + real(qb, b)[None, :, None, None], y)


@pytest.mark.parametrize("storages", PAIRS)
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("bias", [False, True])
def test_fully_connected(storages: tuple[str, str], channels: str, bias: bool) -> None:
    rng = np.random.default_rng(3)
    storage, weights = storages
    x, y = encoding(storage, 0.02, 11), encoding(storage, 0.1, -20)
    w = weight_encoding(weights, 7, 0, channels)
    g = Graph((x, (5, 20)))
    qw = stored(rng, (7, 20), weights)
    operands = [g.block.args[0], g.constant(qw, w)]
    q = stored(rng, (5, 20), storage)
    exact = real(q, x) @ real(qw, w).T
    if bias:
        b = bias_encoding(x, w)
        qb = rng.integers(-3000, 3000, 7).astype(np.int32)
        operands.append(g.constant(qb, b))
        exact = exact + real(qb, b)
    result = g.add(nn.FullyConnectedOp(*operands, element=y))
    check(g.run(result, [q], ["QGemm"]), exact, y)


@pytest.mark.parametrize("storages", PAIRS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_matmul(storages: tuple[str, str], channels: str) -> None:
    rng = np.random.default_rng(4)
    storage, weights = storages
    x, y = encoding(storage, 0.02, 11), encoding(storage, 0.1, -20)
    w = weight_encoding(weights, 7, 1, channels)
    g = Graph((x, (2, 5, 20)))
    qw = stored(rng, (20, 7), weights)
    result = g.add(nn.MatMulOp(g.block.args[0], g.constant(qw, w), element=y))
    q = stored(rng, (2, 5, 20), storage)
    check(g.run(result, [q], ["QLinearMatMul"]), real(q, x) @ real(qw, w), y)


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("absorbed", [False, True])
def test_concat(storage: str, absorbed: bool) -> None:
    """Operands of other qparams, directly or behind a rescale used once."""
    rng = np.random.default_rng(5)
    a, b, y = encoding(storage, 0.02, 9), encoding(storage, 0.05, -40), encoding(storage, 0.03, 3)
    g = Graph((a, (2, 3, 8)), (b, (2, 5, 8)))
    first, second = g.block.args
    if absorbed:
        first = g.add(RescaleOp(first, TensorType(y, (2, 3, 8))))
        second = g.add(RescaleOp(second, TensorType(y, (2, 5, 8))))
    result = g.add(nn.ConcatOp(first, second, element=y, axis=1))
    qa, qb = stored(rng, (2, 3, 8), storage), stored(rng, (2, 5, 8), storage)
    got = g.run(result, [qa, qb], ["QLinearConcat"])
    check(got, np.concatenate([real(qa, a), real(qb, b)], 1), y)


def test_rescale_with_another_reader_is_written_for_both() -> None:
    a, y = encoding("u8", 0.02, 9), encoding("u8", 0.03, 3)
    g = Graph((a, (2, 3)))
    shared = g.add(RescaleOp(g.block.args[0], TensorType(y, (2, 3))))
    flipped = g.add(nn.TransposeOp(g.add(nn.TransposeOp(shared, perm=(1, 0))), perm=(1, 0)))
    result = g.add(nn.ConcatOp(shared, flipped, element=y, axis=1))
    types = ["DequantizeLinear", "QuantizeLinear", "Transpose", "Transpose", "Concat"]
    q = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    check(g.run(result, [q], types), np.concatenate([real(q, a)] * 2, 1), y, tie=1)


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("zero", [-128, -20, 30])
def test_relu_is_a_bound(storage: str, zero: int) -> None:
    x = encoding(storage, 0.02, zero)
    g = Graph((x, (256,)))
    result = g.add(nn.ReluOp(g.block.args[0]))
    bounds = BOUNDS[storage]
    q = np.arange(bounds.min, bounds.max + 1).astype(STORAGE_DTYPES[storage])
    got = g.run(result, [q], ["Identity"] if zero == -128 else ["Max"])
    np.testing.assert_array_equal(got, np.maximum(q, x.qparams.zero_point))


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize(
    ("bounds", "types"),
    [
        ((0.0, 1.5), ["Max", "Min"]),
        ((None, 1.5), ["Min"]),
        ((-1.0, None), ["Max"]),
        ((-100.0, 100.0), ["Identity"]),
        ((None, None), ["Identity"]),
    ],
)
def test_clip_is_two_bounds(
    storage: str, bounds: tuple[float | None, float | None], types: list[str]
) -> None:
    x = encoding(storage, 0.02, 5)
    g = Graph((x, (256,)))
    given = {n: v for n, v in zip(("min", "max"), bounds, strict=True) if v is not None}
    result = g.add(nn.ClipOp(g.block.args[0], **given))
    info = BOUNDS[storage]
    q = np.arange(info.min, info.max + 1).astype(STORAGE_DTYPES[storage])
    got = g.run(result, [q], types)
    low, high = bounds
    exact = np.clip(real(q, x), -np.inf if low is None else low, np.inf if high is None else high)
    check(got, exact, x, tie=0)


@pytest.mark.parametrize("name", ["div", "sub", "tanh", "hard_sigmoid", "hard_swish", "batch_norm"])
def test_ops_without_a_kernel_are_dequantized(name: str) -> None:
    x, y = encoding("u8", 0.02, 9), encoding("u8", 0.03, 3)
    g = Graph((x, SHAPE))
    kinds: dict[str, Any] = {
        "div": nn.DivOp,
        "sub": nn.SubOp,
        "tanh": nn.TanhOp,
        "hard_sigmoid": nn.HardSigmoidOp,
        "hard_swish": nn.HardSwishOp,
        "batch_norm": nn.BatchNormOp,
    }
    operands = [g.block.args[0]]
    if name in ("div", "sub"):
        operands.append(g.constant(np.array([140], np.uint8), x))
    if name == "batch_norm":
        from xdsl.dialects.builtin import f32

        ones = np.ones(6, np.float32)
        operands += [g.add(nn.make_constant(ones, f32, g.ctx.blobs)) for _ in range(4)]
    op = kinds[name](*operands, element=y)
    assert refusal(op) is not None
    result = g.add(op)
    model = export(g.ctx, g.module(result), "qoperator")
    types = {node.op_type for node in model.graph.node}
    assert {"DequantizeLinear", "QuantizeLinear"} <= types
    assert not any(name.startswith("QLinear") for name in types)


@pytest.mark.parametrize(("activation", "weight"), [("i8", "u8"), ("u16", "i8")])
def test_pairs_the_kernels_refuse(activation: str, weight: str) -> None:
    x, w = encoding(activation, 0.02, 3), encoding(weight, 0.01, 0)
    g = Graph((x, (2, 4)))
    qw = np.ones((3, 4), STORAGE_DTYPES[weight])
    op = nn.FullyConnectedOp(g.block.args[0], g.constant(qw, w), element=x)
    assert refusal(op) is not None
    model = export(g.ctx, g.module(g.add(op)), "qoperator", opset=21)
    types = [node.op_type for node in model.graph.node]
    assert types[-2:] == ["Gemm", "QuantizeLinear"]


def test_narrow_bounds_are_kept() -> None:
    element = UniformType(QParams.per_tensor(nn_storage(-100, 90), 0.01, 4))
    x = encoding("i8", 0.02, 3)
    for form in ("qdq", "qoperator"):
        g = Graph((x, (256,)))
        op = nn.SigmoidOp(g.block.args[0], element=element)
        model = export(g.ctx, g.module(g.add(op)), form)
        engine = OrtEngine(model, optimize=False)
        q = np.arange(-128, 128).astype(np.int8)
        got = engine.run({engine.inputs[0]: q})[engine.outputs[0]]
        assert got.max() == 90


def nn_storage(low: int, high: int) -> Any:
    from qdialect.qparams.encoding import Storage

    return Storage.of("i8", low, high)


@pytest.mark.parametrize("op", ["add", "rescale"])
def test_other_roundings_are_refused(op: str) -> None:
    from qdialect.errors import UnsupportedError
    from qdialect.numerics.rounding import Rounding

    x = encoding("u8", 0.02, 3)
    g = Graph((x, (4,)))
    source = g.block.args[0]
    made: Operation = (
        nn.AddOp(source, source, rounding="half_up")
        if op == "add"
        else RescaleOp(source, TensorType(encoding("u8", 0.03, 0), (4,)), Rounding.HALF_UP)
    )
    module = g.module(g.add(made))
    with pytest.raises(UnsupportedError, match="ONNX rounds half even"):
        export(g.ctx, module, "qoperator")
