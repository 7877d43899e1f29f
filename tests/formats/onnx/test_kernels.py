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
from kernel_graphs import BYTES, SHAPE, Graph, check, encoding, real, stored
from onnx_models import RUNTIME, STORAGE_DTYPES, Array, export, needs_runtime, steps
from xdsl.dialects.builtin import TensorType, i1, i64

from qdialect.algebra.qparams.parameters import QParams
from qdialect.errors import UsageError
from qdialect.ir import ops as nn
from qdialect.ir.quant import RescaleOp, UniformType
from qdialect.plugins.onnx.write import OrtEngine
from qdialect.plugins.onnx.write.kernels import (
    DIRECT,
    KERNELS,
    SINCE,
    Version,
    parse_version,
    runs_on,
)

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
    if storage == "i8":
        needs_runtime(SINCE["nn.softmax", "i8"], "gets a softmax of i8 wrong")
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
MIXED = KERNELS["nn.conv2d"].mixed_zero_points


@pytest.mark.parametrize("storages", PAIRS)
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.exact_sums
def test_conv(storages: tuple[str, str], channels: str, depthwise: bool) -> None:
    if channels == "different":
        needs_runtime(MIXED, "takes one zero point for all channels")
    run_conv(storages, channels, depthwise, ["QLinearConv"])


@pytest.mark.parametrize("storages", PAIRS)
@pytest.mark.exact_sums
def test_conv_for_an_older_runtime(storages: tuple[str, str]) -> None:
    types = ["DequantizeLinear"] * 3 + ["Conv", "QuantizeLinear"]
    run_conv(storages, "different", False, types, runtime="1.26")
    run_conv(storages, "channel", False, ["QLinearConv"], runtime="1.26")


def run_conv(
    storages: tuple[str, str], channels: str, depthwise: bool, types: list[str], **options: Any
) -> None:
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
    got = g.run(g.add(op), [q], types, **options)
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


SIGNALS = {1: (2, 6, 17), 3: (1, 6, 4, 3, 5)}
"""Inputs of one and three spatial dimensions."""


@pytest.mark.parametrize("storages", PAIRS)
@pytest.mark.parametrize("rank", SIGNALS)
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.exact_sums
def test_conv_of_other_ranks(storages: tuple[str, str], rank: int, depthwise: bool) -> None:
    rng = np.random.default_rng(6)
    storage, weights = storages
    shape, kernel = SIGNALS[rank], (3, 2, 3)[:rank]
    x, y = encoding(storage, 0.02, 11), encoding(storage, 0.25, -20)
    w = weight_encoding(weights, 6, 0, "channel")
    g = Graph((x, shape))
    qw = stored(rng, (6, 1 if depthwise else 6, *kernel), weights)
    qb = rng.integers(-3000, 3000, 6).astype(np.int32)
    b = bias_encoding(x, w)
    op = nn.CONVOLUTIONS[rank - 1](
        g.block.args[0],
        g.constant(qw, w),
        g.constant(qb, b),
        element=y,
        pads=(1,) * 2 * rank,
        dilations=(2,) * rank if rank == 1 else None,
        groups=6 if depthwise else 1,
    )
    q = stored(rng, shape, storage)
    got = g.run(g.add(op), [q], ["QLinearConv"])
    padded = np.pad(real(q, x), ((0, 0), (0, 0), *[(1, 1)] * rank))
    rw, step = real(qw, w), 2 if rank == 1 else 1
    exact = np.zeros(got.shape)
    for tap in np.ndindex(*kernel):
        places = [slice(i * step, i * step + n) for i, n in zip(tap, got.shape[2:], strict=True)]
        part, taps = padded[(..., *places)], rw[(..., *tap)]
        if depthwise:
            exact += part * taps[:, 0].reshape(-1, *(1,) * rank)
        else:
            exact += np.einsum("nc...,oc->no...", part, taps)
    check(got, exact + real(qb, b).reshape(-1, *(1,) * rank), y)


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("rank", SIGNALS)
def test_average_pools_of_other_ranks(storage: str, rank: int) -> None:
    rng = np.random.default_rng(7)
    shape = SIGNALS[rank]
    x, y = encoding(storage, 0.03, 10), encoding(storage, 0.02, -5)
    q = stored(rng, shape, storage)
    values = real(q, x)
    g = Graph((x, shape))
    result = g.add(nn.AVERAGE_POOLS[rank - 1](g.block.args[0], element=y, kernel=(2,) * rank))
    exact = sum(
        values[(..., *[slice(i, n - 1 + i) for i, n in zip(tap, shape[2:], strict=True)])]
        for tap in np.ndindex(*(2,) * rank)
    )
    check(g.run(result, [q], ["QLinearAveragePool"]), exact / 2**rank, y)
    g = Graph((x, shape))
    result = g.add(nn.GLOBAL_AVERAGE_POOLS[rank - 1](g.block.args[0], element=y))
    exact = values.mean(tuple(range(2, 2 + rank)), keepdims=True)
    check(g.run(result, [q], ["QLinearGlobalAveragePool"]), exact, y)


@pytest.mark.parametrize("storages", PAIRS)
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.exact_sums
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
@pytest.mark.exact_sums
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


# -- ops on stored integers ---------------------------------------------------------------

MOVES: dict[str, tuple[Any, dict[str, Any], Callable[[Array], Array]]] = {
    "nn.reshape": (nn.ReshapeOp, {"shape": (4, 16)}, lambda x: x.reshape(4, 16)),
    "nn.flatten": (nn.FlattenOp, {"axis": 1}, lambda x: x.reshape(1, 64)),
    "nn.transpose": (nn.TransposeOp, {"perm": (0, 2, 1, 3)}, lambda x: x.transpose(0, 2, 1, 3)),
    "nn.slice": (
        nn.SliceOp,
        {"starts": (0, 1, 0, 0), "stops": (1, 4, 4, 4), "steps": (1, 2, 1, 1)},
        lambda x: x[:, 1:4:2],
    ),
    "nn.concat": (nn.ConcatOp, {"axis": 1}, lambda x: np.concatenate([x, x], 1)),
    "nn.pad": (
        nn.PadOp,
        {"low": (0, 0, 1, 0), "high": (0, 0, 0, 2), "mode": "edge", "value": 0.0},
        lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)), "edge"),
    ),
    "nn.max_pool2d": (
        nn.MaxPool2DOp,
        {"kernel": (2, 2), "strides": (2, 2)},
        lambda x: x.reshape(1, 4, 2, 2, 2, 2).max((3, 5)),
    ),
    "nn.max_pool1d": (
        nn.MaxPool1DOp,
        {"kernel": (2,), "strides": (2,)},
        lambda x: x.reshape(1, 4, 8, 2).max(3),
    ),
    "nn.max_pool3d": (
        nn.MaxPool3DOp,
        {"kernel": (2, 1, 2), "strides": (2, 1, 2)},
        lambda x: x.reshape(1, 4, 2, 2, 2, 1, 2).max((3, 6)),
    ),
    "nn.reduce_max": (nn.ReduceMaxOp, {"axes": (1, -1)}, lambda x: x.max((1, 3), keepdims=True)),
    "nn.reduce_min": (nn.ReduceMinOp, {"axes": (2,), "keepdims": False}, lambda x: x.min(2)),
    "nn.squeeze": (nn.SqueezeOp, {"axes": (0,)}, lambda x: x[0]),
    "nn.unsqueeze": (nn.UnsqueezeOp, {"axes": (1,)}, lambda x: x[:, None]),
    "nn.expand": (nn.ExpandOp, {"shape": (2, 4, 4, 4)}, lambda x: np.concatenate([x, x])),
    "nn.tile": (nn.TileOp, {"repeats": (1, 2, 1, 1)}, lambda x: np.tile(x, (1, 2, 1, 1))),
    "nn.repeat": (nn.RepeatOp, {"repeats": (1, 2, 1, 1)}, lambda x: x.repeat(2, 1)),
    "nn.flip": (nn.FlipOp, {"axes": (2,)}, lambda x: x[:, :, ::-1]),
    "nn.split": (nn.SplitOp, {"axis": 1, "sizes": (1, 3)}, lambda x: x[:, :1]),
    "nn.reshape_to": (nn.ReshapeToOp, {}, lambda x: x.reshape(2, 32)),
    "nn.gather": (nn.GatherOp, {"axis": 1}, lambda x: x[:, [2, 0]]),
    "nn.select": (nn.SelectOp, {}, lambda x: x),
    "nn.insert": (
        nn.InsertOp,
        {"starts": (0, 0, 0, 0), "steps": (1, 1, 1, 1)},
        lambda x: x,
    ),
    "nn.compare": (nn.CompareOp, {"mode": "lt"}, lambda x: x < x[..., ::-1]),
    "nn.arg_max": (nn.ArgMaxOp, {"axis": 1, "last": True}, lambda x: x.argmax(1, keepdims=True)),
    "nn.arg_min": (nn.ArgMinOp, {"axis": 3, "keepdims": False}, lambda x: x.argmin(3)),
    "nn.top_k": (nn.TopKOp, {"k": 2, "axis": 3}, lambda x: np.sort(x)[..., :1:-1]),
    "nn.depth_to_space": (
        nn.DepthToSpaceOp,
        {"block": 2, "mode": "DCR"},
        lambda x: x.reshape(1, 2, 2, 1, 4, 4).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 8, 8),
    ),
    "nn.space_to_depth": (
        nn.SpaceToDepthOp,
        {"block": 2, "mode": "DCR"},
        lambda x: x.reshape(1, 4, 2, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 16, 2, 2),
    ),
    "nn.resize_nearest": (
        nn.ResizeNearestOp,
        {"sizes": (1, 4, 8, 8), "coordinates": "asymmetric", "nearest": "floor"},
        lambda x: x.repeat(2, 2).repeat(2, 3),
    ),
}


MOVED = {"nn.max_pool1d": (1, 4, 16), "nn.max_pool3d": (1, 4, 4, 2, 2)}
"""What is moved, where it is not an image."""


def move(name: str, storage: str, runtime: Version) -> list[str]:
    """Run the op on integers in a model for `runtime`; the op types of that model."""
    kind, properties, function = MOVES[name]
    element = UniformType(QParams.per_tensor(storage, 0.03125, 0 if storage == "i32" else 3))
    shape = MOVED.get(name, (1, 4, 4, 4))
    g = Graph((element, shape))
    x = g.block.args[0]
    operands = [x, x] if name == "nn.concat" else [x]
    if name == "nn.gather":
        operands.append(g.add(nn.make_constant(np.array([2, 0]), i64, g.ctx.blobs)))
    if name == "nn.reshape_to":
        operands.append(g.add(nn.make_constant(np.array([2, -1]), i64, g.ctx.blobs)))
    if name == "nn.compare":
        operands.append(g.add(nn.FlipOp(x, axes=(3,))))
    if name == "nn.insert":
        part = {"starts": (0, 1, 0, 0), "stops": (1, 3, 4, 4), "steps": (1, 1, 1, 1)}
        operands.append(g.add(nn.SliceOp(x, **part)))
        properties = {**properties, "starts": (0, 1, 0, 0)}
    if name == "nn.select":
        mask = np.ones((4, 1), np.bool_)
        operands = [g.add(nn.make_constant(mask, i1, g.ctx.blobs)), x, x]
    result = g.add(kind(*operands, **properties))
    version = f"{runtime[0]}.{runtime[1]}"
    model = export(g.ctx, g.module(result), runtime=version)
    q = np.arange(64).reshape(shape).astype({**STORAGE_DTYPES, "i32": np.int32}[storage])
    engine = OrtEngine(model, optimize=False)
    got = engine.run({engine.inputs[0]: q})[engine.outputs[0]]
    np.testing.assert_array_equal(got, function(q))
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(("name", "storage"), [(n, s) for n in DIRECT for s in sorted(DIRECT[n])])
def test_moves_on_integers(name: str, storage: str) -> None:
    """Directly where the runtime can, and else dequantized: right in any case."""
    types = move(name, storage, RUNTIME)
    assert ("DequantizeLinear" not in types) == runs_on(name, storage, RUNTIME)


@pytest.mark.parametrize(("name", "storage"), [key for key in SINCE if key[0] in DIRECT])
def test_moves_for_an_older_runtime(name: str, storage: str) -> None:
    major, minor = SINCE[name, storage]
    assert "DequantizeLinear" in move(name, storage, (major, minor - 1))


def test_softmax_for_an_older_runtime() -> None:
    x, y = encoding("i8", 0.02, 3), encoding("i8", 1 / 256, -128)
    g = Graph((x, (4, 5)))
    result = g.add(nn.SoftmaxOp(g.block.args[0], element=y, axis=1))
    q = stored(np.random.default_rng(0), (4, 5), "i8")
    types = ["DequantizeLinear", "Softmax", "QuantizeLinear"]
    got = g.run(result, [q], types, numerics="bounded", runtime="1.28")
    check(got, softmax(real(q, x)), y)


def test_versions_are_read() -> None:
    assert parse_version("1.23.2") == (1, 23)
    assert parse_version("1.32.0.dev20260101") == (1, 32)
    with pytest.raises(UsageError, match="no version of ONNX Runtime: 'new'"):
        parse_version("new")
