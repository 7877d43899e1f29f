"""Random TFLite networks of many ops: they know types of ops, and nothing of what reads them.

case = graph(np.random.default_rng(0), "i8", ops=12)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.tflite_cases import Case
from tests.support.tflite_models import model, op, tensor

_TYPES = {"f32": "FLOAT32", "i8": "INT8", "u8": "UINT8"}
_DTYPES: dict[str, Any] = {"f32": np.float32, "i8": np.int8, "u8": np.uint8}


@dataclass(frozen=True)
class Value:
    """A tensor so far."""

    name: str
    shape: tuple[int, ...]
    qparams: tuple[float, int] | None


class Graph:
    """A network that grows op by op, each on random values that are there."""

    def __init__(self, rng: np.random.Generator, kind: str) -> None:
        self.rng, self.kind = rng, kind
        self.values: list[Value] = []
        self.tensors: list[dict[str, Any]] = []
        self.ops: list[dict[str, Any]] = []

    # -- tensors ------------------------------------------------------------------------

    def qparams(self) -> tuple[float, int] | None:
        """Random ones, of 3 to 20 units over all codes; powers of two among them."""
        if self.kind == "f32":
            return None
        low, high = (-128, 127) if self.kind == "i8" else (0, 255)
        exponent = self.rng.uniform(-6.5, -3.5)
        scale = 2.0 ** (round(exponent) if self.rng.integers(3) == 0 else exponent)
        return float(np.float32(scale)), int(self.rng.integers(low // 2, high // 2 + 1))

    def new(self, shape: tuple[int, ...], qparams: Any) -> Value:
        value = Value(f"t{len(self.tensors)}", shape, qparams)
        self.tensors.append(self._tensor(value, None))
        self.values.append(value)
        return value

    def _tensor(self, value: Value, data: Any) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if value.qparams is not None:
            given = {"scales": value.qparams[0], "zero_points": value.qparams[1]}
        return tensor(value.name, value.shape, _TYPES[self.kind], data=data, **given)

    def numbers(self, shape: tuple[int, ...]) -> Any:
        if self.kind == "f32":
            return self.rng.standard_normal(shape).astype(np.float32)
        info = np.iinfo(_DTYPES[self.kind])
        return self.rng.integers(info.min, info.max + 1, shape).astype(_DTYPES[self.kind])

    def constant(self, array: Any, type: str = "INT32", **rest: Any) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(tensor(name, np.shape(array), type, data=array, **rest))
        return name

    def own(self, shape: tuple[int, ...]) -> str:
        """A constant of activations."""
        value = Value(f"c{len(self.tensors)}", shape, self.qparams())
        self.tensors.append(self._tensor(value, self.numbers(shape)))
        return value.name

    def emit(self, name: str, inputs: list[str], result: Value, options: Any = None) -> None:
        self.ops.append(op(name, inputs, [result.name], options))

    # -- choices ------------------------------------------------------------------------

    def pick(self, rank: int) -> Value | None:
        found = [v for v in self.values if len(v.shape) == rank and np.prod(v.shape) <= 1 << 13]
        return found[-1 - int(self.rng.integers(min(3, len(found))))] if found else None

    def of(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def activation(self) -> str:
        return self.of("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def _weights(g: Graph, shape: tuple[int, ...], axis: int) -> tuple[str, Any]:
    if g.kind == "f32":
        return g.constant(g.numbers(shape) / 3, "FLOAT32"), None
    if g.kind == "u8":
        scale = float(np.float32(2.0 ** g.rng.uniform(-9, -7)))
        codes = g.rng.integers(0, 256, shape)
        weight = g.constant(codes, "UINT8", scales=scale, zero_points=[121])
        return weight, np.array([scale], np.float32)
    scales = (2.0 ** g.rng.uniform(-10, -7, shape[axis])).astype(np.float32)
    codes = g.rng.integers(-127, 128, shape)
    return g.constant(codes, "INT8", scales=scales, axis=axis), scales


def _bias(g: Graph, x: Value, scales: Any, channels: int) -> str:
    if x.qparams is None:
        return g.constant(g.numbers((channels,)), "FLOAT32")
    steps = np.float32(x.qparams[0]) * scales
    return g.constant(g.rng.integers(-2000, 2000, channels), "INT32", scales=steps)


def _conv(g: Graph) -> None:
    x = g.pick(4)
    if x is None:
        return
    n, h, w, c = x.shape
    out, stride, k = int(g.of(3, 4, 8)), int(g.of(1, 1, 2)), int(g.of(1, 3))
    many = g.rng.integers(3) == 0
    shape = (1, k, k, c) if many else (out, k, k, c)
    weight, scales = _weights(g, shape, 3 if many else 0)
    out = c if many else out
    bias = _bias(g, x, scales, out)
    y = g.new((n, -(-h // stride), -(-w // stride), out), g.qparams())
    options = {"padding": "SAME", "stride_w": stride, "stride_h": stride}
    options["fused_activation_function"] = g.activation()
    if many:
        g.emit("DEPTHWISE_CONV_2D", [x.name, weight, bias], y, {**options, "depth_multiplier": 1})
    else:
        g.emit("CONV_2D", [x.name, weight, bias], y, options)


def _dense(g: Graph) -> None:
    x = g.pick(2)
    if x is None:
        return
    weight, scales = _weights(g, (6, x.shape[1]), 0) if g.kind != "i8" else _dense_weights(g, x)
    bias = _bias(g, x, scales, 6)
    y = g.new((x.shape[0], 6), g.qparams())
    g.emit("FULLY_CONNECTED", [x.name, weight, bias], y)


def _dense_weights(g: Graph, x: Value) -> tuple[str, Any]:
    scales = np.array([2.0 ** g.rng.uniform(-9, -7)], np.float32)
    codes = g.rng.integers(-127, 128, (6, x.shape[1]))
    return g.constant(codes, "INT8", scales=scales), scales


def _binary(g: Graph) -> None:
    x = g.pick(int(g.of(2, 3, 4)))
    if x is None:
        return
    same = [v for v in g.values if v.shape == x.shape]
    other = g.of(*same).name if g.rng.integers(2) else g.own((x.shape[-1],))
    y = g.new(x.shape, g.qparams())
    options = {"fused_activation_function": g.activation()}
    g.emit(g.of("ADD", "SUB", "MUL"), [x.name, other], y, options)


def _unary(g: Graph) -> None:
    x = g.pick(int(g.of(2, 3, 4)))
    if x is None:
        return
    name = g.of("RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "LOGISTIC", "TANH")
    low = -128 if g.kind == "i8" else 0
    fixed: dict[str, Any] = {"LOGISTIC": (1 / 256, low), "TANH": (1 / 128, low + 128)}
    qparams = fixed.get(name) if x.qparams is not None else None
    y = g.new(x.shape, qparams or g.qparams())
    g.emit(name, [x.name], y, {"alpha": 0.2} if name == "LEAKY_RELU" else None)


def _softmax(g: Graph) -> None:
    x = g.pick(2)
    if x is not None:
        fixed = (1 / 256, -128 if g.kind == "i8" else 0)
        y = g.new(x.shape, None if x.qparams is None else fixed)
        g.emit("SOFTMAX", [x.name], y, {"beta": 1.0})


def _pool(g: Graph) -> None:
    x = g.pick(4)
    if x is None:
        return
    n, h, w, c = x.shape
    y = g.new((n, -(-h // 2), -(-w // 2), c), x.qparams)
    sizes = {"filter_height": 2, "filter_width": 3, "stride_w": 2, "stride_h": 2}
    options = {**sizes, "padding": "SAME", "fused_activation_function": g.activation()}
    g.emit(g.of("MAX_POOL_2D", "AVERAGE_POOL_2D"), [x.name], y, options)


def _mean(g: Graph) -> None:
    x = g.pick(4)
    if x is None:
        return
    keep = bool(g.of(False, True))
    shape = (x.shape[0], 1, 1, x.shape[3]) if keep else (x.shape[0], x.shape[3])
    axes = g.constant(np.array([1, 2], np.int32))
    g.emit("MEAN", [x.name, axes], g.new(shape, g.qparams()), {"keep_dims": keep})


def _transpose(g: Graph) -> None:
    x = g.pick(int(g.of(3, 4)))
    if x is None:
        return
    perm = g.rng.permutation(len(x.shape)).astype(np.int32)
    y = g.new(tuple(x.shape[int(p)] for p in perm), x.qparams)
    g.emit("TRANSPOSE", [x.name, g.constant(perm)], y)


def _reshape(g: Graph) -> None:
    x = g.pick(int(g.of(2, 3, 4)))
    if x is None:
        return
    n, last = x.shape[0], x.shape[-1]
    rest = int(np.prod(x.shape[1:-1]))
    shape = g.of((n, rest, last), (n, rest * last), (n, rest, 1, last), (n, 1, last, rest))
    y = g.new(shape, x.qparams)
    name = g.constant(np.array(shape, np.int32))
    g.emit("RESHAPE", [x.name, name], y, {"new_shape": list(shape)})


def _concat(g: Graph) -> None:
    x = g.pick(4)
    if x is None:
        return
    same = [v for v in g.values if v.shape == x.shape and v.qparams == x.qparams]
    other, axis = g.of(*same), int(g.of(1, 3))
    shape = list(x.shape)
    shape[axis] *= 2
    y = g.new(tuple(shape), x.qparams)
    g.emit("CONCATENATION", [x.name, other.name], y, {"axis": axis})


def _pad(g: Graph) -> None:
    x = g.pick(4)
    if x is None:
        return
    amounts = np.array([[0, 0], [1, 0], [1, 2], [0, 1]], np.int32)
    shape = tuple(n + int(a) + int(b) for n, (a, b) in zip(x.shape, amounts, strict=True))
    g.emit("PAD", [x.name, g.constant(amounts)], g.new(shape, x.qparams))


def _slice(g: Graph) -> None:
    x = g.pick(4)
    if x is None or x.shape[2] < 3:
        return
    begin, end = np.array([0, 0, 1, 0], np.int32), np.array([0, 0, 0, 0], np.int32)
    step = np.array([1, 1, 2, 1], np.int32)
    shape = (*x.shape[:2], len(range(1, x.shape[2], 2)), x.shape[3])
    names = [g.constant(a) for a in (begin, end, step)]
    masks = {"begin_mask": 11, "end_mask": 15}
    g.emit("STRIDED_SLICE", [x.name, *names], g.new(shape, x.qparams), masks)


def _resize(g: Graph) -> None:
    x = g.pick(4)
    if x is None:
        return
    size = g.of((5, 7), (3, 4), (8, 2))
    y = g.new((x.shape[0], *size, x.shape[3]), x.qparams)
    flags = {"half_pixel_centers": bool(g.of(False, True))}
    name = g.of("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
    g.emit(name, [x.name, g.constant(np.array(size, np.int32))], y, flags)


def _quantize(g: Graph) -> None:
    x = g.pick(int(g.of(2, 4)))
    if x is not None and x.qparams is not None:
        g.emit("QUANTIZE", [x.name], g.new(x.shape, g.qparams()))


STEPS: tuple[Callable[[Graph], None], ...] = (
    *(_conv, _conv, _binary, _binary, _unary, _unary, _dense, _softmax, _pool, _mean),
    *(_transpose, _reshape, _concat, _pad, _slice, _resize, _quantize),
)


def graph(rng: np.random.Generator, kind: str, ops: int) -> Case:
    """A network of up to `ops` ops, and an input; each value that nothing reads is an output."""
    g = Graph(rng, kind)
    x = g.new((1, 6, 7, 4), g.qparams())
    data = g.numbers(x.shape)
    for _ in range(ops):
        STEPS[int(rng.integers(len(STEPS)))](g)
    if not g.ops:
        _pool(g)
    read = {name for entry in g.ops for name in entry["inputs"]}
    by_name = {t["name"]: t for t in g.tensors}
    outputs = [by_name[v.name] for v in g.values[1:] if v.name not in read]
    others = [t for t in g.tensors if t["name"] != x.name and t not in outputs]
    return Case(model([by_name[x.name]], outputs, g.ops, others), [data])
