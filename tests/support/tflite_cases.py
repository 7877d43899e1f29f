"""Random models of one builtin op each, for what reads or writes TFLite.

    case = CASES["CONV_2D"](Maker(np.random.default_rng(0), "i8"))
    codes = run_litert(case.data, case.inputs)

A maker knows the type of activations: `f32`, `i8`, `u8` or `i16`; a case of another op gives None
for types that LiteRT has no kernel for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.tflite_models import model, op, tensor

Array = NDArray[Any]
_TYPES = {"f32": "FLOAT32", "i8": "INT8", "u8": "UINT8", "i16": "INT16"}
_DTYPES: dict[str, Any] = {"f32": np.float32, "i8": np.int8, "u8": np.uint8, "i16": np.int16}


@dataclass(frozen=True)
class Case:
    """A file and inputs for it."""

    data: bytes
    inputs: list[Array]


class Maker:
    """Makes tensors of one type of activations, with random qparams and elements."""

    def __init__(self, rng: np.random.Generator, kind: str) -> None:
        self.rng = rng
        self.kind = kind
        self.inputs: list[dict[str, Any]] = []
        self.outputs: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.values: list[Array] = []
        self.ops: list[dict[str, Any]] = []

    @property
    def is_float(self) -> bool:
        return self.kind == "f32"

    def qparams(self, scale: float | None = None, zero: int | None = None) -> dict[str, Any]:
        """Random ones: a zero point of 0 for 16 bits, as LiteRT asks for."""
        if self.is_float:
            return {}
        low, high = {"i8": (-128, 127), "u8": (0, 255), "i16": (0, 0)}[self.kind]
        found = self.rng.integers(low, high + 1) if zero is None else zero
        made = 2.0 ** self.rng.uniform(-6, -3) if scale is None else scale
        if self.kind == "i16":
            found, made = 0, made / (64 if scale is None else 1)
        return {"scales": made, "zero_points": int(found)}

    def numbers(self, shape: Sequence[int]) -> Array:
        """Random elements of the type."""
        if self.is_float:
            return self.rng.standard_normal(shape).astype(np.float32) * 2
        info = np.iinfo(_DTYPES[self.kind])
        return self.rng.integers(info.min, info.max + 1, shape).astype(_DTYPES[self.kind])

    def input(self, shape: Sequence[int], name: str = "x", **qparams: Any) -> dict[str, Any]:
        """An input with random elements (of codes, all there are if they fit)."""
        given = qparams or self.qparams()
        made = tensor(name, shape, _TYPES[self.kind], **given)
        values = self.numbers(shape)
        if self.kind in ("i8", "u8") and values.size >= 256:
            codes = np.arange(256).astype(np.uint8).view(_DTYPES[self.kind])
            values.reshape(-1)[self.rng.permutation(values.size)[:256]] = codes
        self.inputs.append(made)
        self.values.append(values)
        return made

    def above_zero(self, number: int) -> None:
        """Leave codes of an input that stand for positive numbers, also 3 codes further up."""
        zero = int(np.ravel(self.inputs[number]["zero_points"])[0])
        values = self.values[number]
        most = np.iinfo(values.dtype).max
        self.values[number] = np.maximum(values, values.dtype.type(min(zero + 4, most)))

    def plain(self, values: Array, name: str) -> dict[str, Any]:
        """An input of plain numbers."""
        kinds = {"float32": "FLOAT32", "int32": "INT32", "int64": "INT64", "bool": "BOOL"}
        made = tensor(name, values.shape, kinds[values.dtype.name])
        self.inputs.append(made)
        self.values.append(values)
        return made

    def output(
        self, shape: Sequence[int], name: str = "y", kind: str | None = None, **qparams: Any
    ) -> dict[str, Any]:
        """An output."""
        given = {} if kind else (qparams or self.qparams())
        made = tensor(name, shape, kind or _TYPES[self.kind], **given)
        self.outputs.append(made)
        return made

    def like(self, other: Mapping[str, Any], shape: Sequence[int], name: str = "y") -> None:
        """An output with the qparams of another tensor."""
        self.output(shape, name, **self.same(other))

    def same(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """The qparams of a tensor."""
        if self.is_float:
            return {"scales": None}
        return {"scales": other["scales"], "zero_points": other["zero_points"]}

    def constant(self, values: Any, name: str, kind: str = "INT32", **rest: Any) -> str:
        """A constant of plain numbers, or of codes with `scales`."""
        array = np.asarray(values)
        self.others.append(tensor(name, array.shape, kind, data=array, **rest))
        return name

    def weights(self, shape: Sequence[int], axis: int, per_axis: bool = True) -> str:
        """Weights as the type of activations asks for."""
        if self.is_float:
            return self.constant(self.numbers(shape), "w", "FLOAT32")
        if self.kind == "u8":
            codes = self.rng.integers(0, 256, shape)
            return self.constant(codes, "w", "UINT8", scales=0.02, zero_points=[117])
        codes = self.rng.integers(-127, 128, shape)
        count = shape[axis] if per_axis else 1
        scales = 2.0 ** self.rng.uniform(-9, -6, count)
        return self.constant(codes, "w", "INT8", scales=scales, axis=axis if per_axis else 0)

    def bias(self, channels: int, x: Mapping[str, Any]) -> str:
        """A bias in steps of the products of scales."""
        if self.is_float:
            return self.constant(self.numbers((channels,)), "b", "FLOAT32")
        w = next(t for t in self.others if t["name"] == "w")
        scales = np.float32(x["scales"][0]) * w["scales"]
        codes = self.rng.integers(-(1 << 12), 1 << 12, channels)
        kind = "INT64" if self.kind == "i16" else "INT32"
        return self.constant(codes, "b", kind, scales=scales)

    def op(self, name: str, inputs: Sequence[str], options: Any = None, **rest: Any) -> None:
        """The op, which gives all outputs."""
        names = [t["name"] for t in self.outputs]
        self.ops.append(op(name, inputs, names, options, **rest))

    def case(self) -> Case:
        data = model(self.inputs, self.outputs, self.ops, self.others)
        return Case(data, self.values)


Make = Callable[[Maker], "Case | None"]
CASES: dict[str, Make] = {}
"""A maker of a case for each op."""
DRAWN: dict[str, Callable[[Maker], None]] = {}
"""What gives a maker the tensors and the op of a case, whether LiteRT has a kernel or not."""
KINDS = ("f32", "i8", "u8", "i16")


def _case(name: str, *kinds: str) -> Callable[[Callable[[Maker], None]], Any]:
    def register(make: Callable[[Maker], None]) -> Any:
        def made(m: Maker) -> Case | None:
            if m.kind not in (kinds or KINDS):
                return None
            make(m)
            return m.case()

        CASES[name] = made
        DRAWN[name] = make
        return make

    return register


def _pick(m: Maker, *choices: Any) -> Any:
    return choices[m.rng.integers(len(choices))]


_WINDOW = {"stride_w": 1, "stride_h": 1}


def _window(m: Maker) -> dict[str, Any]:
    return {
        "padding": _pick(m, "SAME", "VALID"),
        "stride_w": int(m.rng.integers(1, 3)),
        "stride_h": int(m.rng.integers(1, 3)),
    }


def _out(size: int, kernel: int, stride: int, padding: str, dilation: int = 1) -> int:
    reach = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == "SAME" else (size - reach) // stride + 1


def _activation(m: Maker) -> str:
    return str(_pick(m, "NONE", "RELU", "RELU6", "RELU_N1_TO_1"))


@_case("CONV_2D")
def _conv(m: Maker) -> None:
    x = m.input((2, 7, 8, 6))
    groups = 1 if m.kind in ("u8", "i16") else int(_pick(m, 1, 2))
    w = m.weights((4, 3, 2, 6 // groups), 0)
    window = _window(m)
    d = 1 if window["stride_w"] + window["stride_h"] > 2 else int(_pick(m, 1, 2))
    h = _out(7, 3, window["stride_h"], window["padding"], d)
    wd = _out(8, 2, window["stride_w"], window["padding"], d)
    b = m.bias(4, x)
    m.output((2, h, wd, 4))
    factors = {"dilation_w_factor": d, "dilation_h_factor": d}
    options = {**window, **factors, "fused_activation_function": _activation(m)}
    m.op("CONV_2D", ["x", w, b], options)


@_case("DEPTHWISE_CONV_2D")
def _depthwise(m: Maker) -> None:
    x = m.input((1, 7, 8, 3))
    many = int(_pick(m, 1, 2))
    w = m.weights((1, 3, 3, 3 * many), 3)
    window = _window(m)
    window["stride_w"] = window["stride_h"]
    h = _out(7, 3, window["stride_h"], window["padding"])
    wd = _out(8, 3, window["stride_w"], window["padding"])
    b = m.bias(3 * many, x)
    m.output((1, h, wd, 3 * many))
    options = {**window, "depth_multiplier": many, "fused_activation_function": _activation(m)}
    m.op("DEPTHWISE_CONV_2D", ["x", w, b], options)


@_case("TRANSPOSE_CONV", "f32", "i8")
def _transposed(m: Maker) -> None:
    x = m.input((1, 5, 4, 3))
    w = m.weights((2, 3, 3, 3), 0)
    window = _window(m)
    same = window["padding"] == "SAME"
    sizes = [
        n * s if same else (n - 1) * s + 3
        for n, s in ((5, window["stride_h"]), (4, window["stride_w"]))
    ]
    b = m.bias(2, x)
    shape = (1, *sizes, 2)
    m.output(shape)
    m.op("TRANSPOSE_CONV", [m.constant(shape, "shape"), w, "x", b], window, version=3)


@_case("CONV_3D", "f32")
def _conv3(m: Maker) -> None:
    x = m.input((1, 4, 5, 5, 2))
    w = m.weights((2, 3, 3, 2, 3), 4)
    b = m.bias(3, x)
    m.output((1, 4, 5, 5, 3))
    options = {"padding": "SAME", "stride_d": 1, **_WINDOW}
    factors = {f"dilation_{d}_factor": 1 for d in "dhw"}
    m.op("CONV_3D", ["x", w, b], {**options, **factors})


@_case("FULLY_CONNECTED")
def _fully(m: Maker) -> None:
    keeps = bool(_pick(m, False, True))
    x = m.input((3, 4, 8) if keeps else (12, 8))
    w = m.weights((5, 8), 0, per_axis=m.kind == "i8" and bool(_pick(m, False, True)))
    b = m.bias(5, x)
    m.output((3, 4, 5) if keeps else (12, 5))
    options = {"keep_num_dims": keeps, "fused_activation_function": _activation(m)}
    m.op("FULLY_CONNECTED", ["x", w, b], options)


@_case("BATCH_MATMUL", "f32", "i8")
def _matmul(m: Maker) -> None:
    turned = [bool(_pick(m, False, True)) for _ in range(2)]
    m.input((2, 7, 5) if turned[0] else (2, 5, 7), "x")
    zero = {} if m.is_float else m.qparams(zero=0)
    m.input((2, 4, 7) if turned[1] else (2, 7, 4), "v", **zero)
    m.output((2, 5, 4), **m.qparams(scale=0.5))
    m.op("BATCH_MATMUL", ["x", "v"], {"adj_x": turned[0], "adj_y": turned[1]})


def _binary(name: str, *kinds: str, fused: bool = True) -> None:
    @_case(name, *kinds)
    def _make(m: Maker) -> None:
        shapes = [(2, 16, 32, 8), _pick(m, (2, 16, 32, 8), (8,), (1, 16, 1, 8), (2, 16, 32, 1))]
        x = m.input(shapes[0], "x")
        zero = m.qparams()
        v = m.input(shapes[1], "v", **zero) if zero else m.input(shapes[1], "v")
        if name in ("MAXIMUM", "MINIMUM"):
            v.update(m.same(x))
            m.like(x, shapes[0])
        else:
            m.output(shapes[0])
        options: dict[str, Any] = {}
        if fused:
            options["fused_activation_function"] = _activation(m)
        if name in ("ADD", "SUB") and m.kind == "i16":
            options["pot_scale_int16"] = False
        if name == "DIV" and not m.is_float:
            m.above_zero(1)
        m.op(name, ["x", "v"], options)


for _name in ("ADD", "SUB", "MUL"):
    _binary(_name)
_binary("DIV", "f32")
for _name in ("MAXIMUM", "MINIMUM"):
    _binary(_name, "f32", "i8", fused=False)
_binary("SQUARED_DIFFERENCE", "f32", "i8", fused=False)


def _comparison(name: str) -> None:
    @_case(name, "f32", "i8")
    def _make(m: Maker) -> None:
        x = m.input((2, 5, 8), "x")
        v = m.input((5, 8), "v")
        v.update(m.same(x))
        m.output((2, 5, 8), kind="BOOL")
        m.op(name, ["x", "v"])


for _name in ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"):
    _comparison(_name)

_FIXED = {
    "LOGISTIC": {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (1 / 32768, 0)},
    "SOFTMAX": {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (1 / 32768, 0)},
    "TANH": {"i8": (1 / 128, 0), "u8": (1 / 128, 128), "i16": (1 / 32768, 0)},
    "LOG_SOFTMAX": {"i8": (16 / 256, 127)},
    "L2_NORMALIZATION": {"i8": (1 / 128, 0), "u8": (1 / 128, 128)},
}


def _unary(
    name: str,
    *kinds: str,
    options: Mapping[str, Any] | Callable[[Maker], Mapping[str, Any]] | None = None,
    positive: bool = False,
) -> None:
    @_case(name, *kinds)
    def _make(m: Maker) -> None:
        zero = -128 if positive and m.kind == "i8" else None
        own: dict[str, Any] = {} if m.is_float else m.qparams(zero=zero)
        if m.kind == "i16" and name in ("LOGISTIC", "TANH"):
            own = {"scales": 2.0**-12, "zero_points": 0}
        m.input((1, 8, 16, 4), **own)
        if positive and m.is_float:
            m.values[0] = np.abs(m.values[0]) + np.float32(0.1)
        elif positive:
            m.above_zero(0)
        fixed = _FIXED.get(name, {}).get(m.kind)
        if m.is_float:
            m.output((1, 8, 16, 4))
        elif fixed is not None:
            m.output((1, 8, 16, 4), scales=fixed[0], zero_points=fixed[1])
        else:
            m.output((1, 8, 16, 4))
        given = options(m) if callable(options) else options
        m.op(name, ["x"], given)


for _name in ("RELU", "RELU6", "RELU_N1_TO_1"):
    _unary(_name, "f32", "i8", "u8")
_unary("RELU_0_TO_1", "f32")
_unary("LEAKY_RELU", options=lambda m: {"alpha": float(_pick(m, 0.1, 0.25, 1.5))})
_unary("ELU", "f32", "i8")
_unary("GELU", "f32", "i8", options=lambda m: {"approximate": bool(_pick(m, False, True))})
_unary("HARD_SWISH", "f32", "i8", "u8")
for _name in ("LOGISTIC", "TANH"):
    _unary(_name)
_unary("EXP", "f32", "i8")
_unary("LOG", "f32", "i8", positive=True)
_unary("SQRT", "f32", positive=True)
_unary("RSQRT", "f32", "i8", positive=True)
_unary("ABS", "f32", "i8", "i16")
for _name in ("SQUARE", "NEG", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "LOG_SOFTMAX"):
    _unary(_name, "f32")
_unary("SOFTMAX", options={"beta": 1.0})
_unary("L2_NORMALIZATION", "f32")
_unary(
    "LOCAL_RESPONSE_NORMALIZATION",
    "f32",
    options={"radius": 1, "bias": 1.5, "alpha": 0.3, "beta": 0.75},
)


@_case("PRELU", "f32", "i8", "u8")
def _prelu(m: Maker) -> None:
    m.input((1, 8, 16, 4))
    slopes = m.numbers((1, 1, 4))
    given = m.qparams()
    m.others.append(tensor("a", (1, 1, 4), _TYPES[m.kind], data=slopes, **given))
    m.output((1, 8, 16, 4), **m.qparams())
    m.op("PRELU", ["x", "a"])


def _pool(name: str, *kinds: str) -> None:
    @_case(name, *kinds)
    def _make(m: Maker) -> None:
        x = m.input((2, 7, 8, 16))
        window = _window(m)
        h = _out(7, 3, window["stride_h"], window["padding"])
        w = _out(8, 2, window["stride_w"], window["padding"])
        m.like(x, (2, h, w, 16))
        sizes = {"filter_height": 3, "filter_width": 2}
        m.op(name, ["x"], {**window, **sizes, "fused_activation_function": _activation(m)})


_pool("AVERAGE_POOL_2D")
_pool("MAX_POOL_2D")
_pool("L2_POOL_2D", "f32")


def _reduction(name: str, *kinds: str, same: bool = False) -> None:
    @_case(name, *kinds)
    def _make(m: Maker) -> None:
        axes = _pick(m, (1, 2), (2, 1), (3,), (1,), (-1, 0), (1, 2, 3))
        keep = bool(_pick(m, False, True))
        x = m.input((2, 5, 6, 16))
        if same:
            m.like(x, np.ones((2, 5, 6, 16)).sum(axis=axes, keepdims=keep).shape)
        else:
            m.output(np.ones((2, 5, 6, 16)).sum(axis=axes, keepdims=keep).shape)
        m.op(name, ["x", m.constant(np.array(axes, np.int32), "axes")], {"keep_dims": keep})


_reduction("MEAN")
_reduction("SUM", "f32", "i8")
_reduction("REDUCE_MAX", "f32", "i8", same=True)
_reduction("REDUCE_MIN", "f32", "i8", same=True)
_reduction("REDUCE_PROD", "f32")


@_case("QUANTIZE", "i8", "u8", "i16")
def _quantize(m: Maker) -> None:
    values = m.rng.standard_normal((3, 333)).astype(np.float32) * 3
    m.plain(values, "x")
    m.output((3, 333))
    m.op("QUANTIZE", ["x"])


@_case("QUANTIZE codes", "i8", "u8", "i16")
def _requantize(m: Maker) -> None:
    m.input((3, 333))
    m.output((3, 333))
    m.op("QUANTIZE", ["x"])


@_case("DEQUANTIZE", "i8", "u8", "i16")
def _dequantize(m: Maker) -> None:
    m.input((3, 333))
    m.output((3, 333), kind="FLOAT32")
    m.op("DEQUANTIZE", ["x"])


@_case("CAST", "f32")
def _cast(m: Maker) -> None:
    m.input((3, 33))
    m.output((3, 33), kind="INT32")
    m.op("CAST", ["x"], {"in_data_type": "FLOAT32", "out_data_type": "INT32"})


_VERSIONS = {"BROADCAST_TO": 2}


def _movement(
    name: str, shape: Sequence[int], make: Callable[[Maker], tuple[Sequence[int], list[str], Any]]
) -> None:
    @_case(name)
    def _make(m: Maker) -> None:
        x = m.input(shape)
        found, inputs, options = make(m)
        m.like(x, found)
        m.op(name, inputs, options, version=_VERSIONS.get(name, 1))


_SHAPE = (2, 4, 6, 8)


def _reshape(m: Maker) -> Any:
    shape = _pick(m, (2, 24, 8), (8, 48), (2, 4, 2, 3, 8), (384,), (2, 4, 6, 4, 2))
    return shape, ["x", m.constant(np.array(shape, np.int32), "s")], {"new_shape": shape}


_movement("RESHAPE", _SHAPE, _reshape)
_movement(
    "SQUEEZE", (2, 1, 5, 1), lambda m: ((2, 5), ["x"], {"squeeze_dims": _pick(m, [1, 3], [-1, 1])})
)
_movement("EXPAND_DIMS", _SHAPE, lambda m: ((2, 4, 1, 6, 8), ["x", m.constant([2], "a")], None))
_movement("TRANSPOSE", _SHAPE, lambda m: ((8, 2, 6, 4), ["x", m.constant([3, 0, 2, 1], "p")], None))
_movement(
    "SLICE",
    _SHAPE,
    lambda m: (
        (1, 2, 6, 3),
        ["x", m.constant([1, 1, 0, 5], "b"), m.constant([1, 2, -1, 3], "n")],
        None,
    ),
)
_movement("TILE", _SHAPE, lambda m: ((2, 8, 6, 24), ["x", m.constant([1, 2, 1, 3], "n")], None))
_movement(
    "PAD",
    _SHAPE,
    lambda m: (
        (2, 5, 9, 8),
        ["x", m.constant([[0, 0], [1, 0], [2, 1], [0, 0]], "p")],
        None,
    ),
)
_movement(
    "MIRROR_PAD",
    _SHAPE,
    lambda m: (
        (2, 5, 9, 8),
        ["x", m.constant([[0, 0], [1, 0], [2, 1], [0, 0]], "p")],
        {"mode": _pick(m, "REFLECT", "SYMMETRIC")},
    ),
)
_movement("REVERSE_V2", _SHAPE, lambda m: (_SHAPE, ["x", m.constant([2], "a")], None))
_movement("SPACE_TO_DEPTH", _SHAPE, lambda m: ((2, 2, 3, 32), ["x"], {"block_size": 2}))
_movement("DEPTH_TO_SPACE", _SHAPE, lambda m: ((2, 8, 12, 2), ["x"], {"block_size": 2}))
_movement(
    "SPACE_TO_BATCH_ND",
    _SHAPE,
    lambda m: (
        (12, 2, 3, 8),
        ["x", m.constant([2, 3], "b"), m.constant([[0, 0], [1, 2]], "p")],
        None,
    ),
)
_movement(
    "BATCH_TO_SPACE_ND",
    (6, 4, 6, 8),
    lambda m: (
        (1, 7, 16, 8),
        ["x", m.constant([2, 3], "b"), m.constant([[1, 0], [0, 2]], "p")],
        None,
    ),
)
_movement(
    "GATHER",
    _SHAPE,
    lambda m: ((2, 4, 3, 8), ["x", m.constant([5, 0, 2], "i")], {"axis": _pick(m, 2, -2)}),
)
_movement(
    "BROADCAST_TO", (4, 1, 8), lambda m: ((2, 4, 6, 8), ["x", m.constant([2, 4, 6, 8], "n")], None)
)


def _strided(m: Maker) -> Any:
    begin, end, step, masks, shape = _pick(
        m,
        ([0, 1, 1, 0], [2, 3, 6, 8], [1, 1, 2, 3], {}, (2, 2, 3, 3)),
        ([0, -1, 0, 0], [2, -5, 6, 8], [1, -2, 1, 1], {}, (2, 2, 6, 8)),
        ([1, 1, 0, 0], [2, 2, 9, 9], [1, 1, 1, 1], {"shrink_axis_mask": 1}, (1, 6, 8)),
        ([0, 2], [0, 4], [1, 1], {"ellipsis_mask": 1}, (2, 4, 6, 2)),
        ([0, 0, 1, 3], [0, 0, 3, 0], [1, 1, 1, 1], {"begin_mask": 3, "end_mask": 11}, (2, 4, 2, 5)),
        ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"new_axis_mask": 1, "end_mask": 2}, (1, 2, 2, 6, 8)),
        ([0, 0, 0, -1], [9, 9, 9, 0], [1, 1, 1, 1], {"shrink_axis_mask": 8}, (2, 4, 6)),
    )
    inputs = ["x", m.constant(begin, "b"), m.constant(end, "e"), m.constant(step, "s")]
    return shape, inputs, masks


_movement("STRIDED_SLICE", _SHAPE, _strided)


@_case("CONCATENATION", "f32", "i8", "u8")
def _concat(m: Maker) -> None:
    x = m.input((2, 4, 6, 8), "x")
    m.input((2, 4, 6, 3), "v", **m.same(x))
    m.like(x, (2, 4, 6, 11))
    m.op("CONCATENATION", ["x", "v"], {"axis": _pick(m, 3, -1)})


@_case("SPLIT", "f32", "i8")
def _split(m: Maker) -> None:
    x = m.input(_SHAPE)
    for name in ("y", "z"):
        m.like(x, (2, 4, 6, 4), name)
    m.op("SPLIT", [m.constant(np.array(3, np.int32), "a"), "x"], {"num_splits": 2})


@_case("SPLIT_V", "f32", "i8")
def _split_v(m: Maker) -> None:
    x = m.input(_SHAPE)
    m.like(x, (2, 4, 1, 8), "y")
    m.like(x, (2, 4, 5, 8), "z")
    sizes, axis = m.constant([1, -1], "n"), m.constant(np.array(2, np.int32), "a")
    m.op("SPLIT_V", ["x", sizes, axis], {"num_splits": 2})


@_case("PACK", "f32", "i8")
def _pack(m: Maker) -> None:
    x = m.input((4, 6, 8), "x")
    m.input((4, 6, 8), "v", **m.same(x))
    axis = int(_pick(m, 0, 1, 3))
    m.like(x, np.stack([np.zeros((4, 6, 8))] * 2, axis).shape)
    m.op("PACK", ["x", "v"], {"axis": axis, "values_count": 2})


@_case("UNPACK", "f32", "i8")
def _unpack(m: Maker) -> None:
    x = m.input((4, 2, 8), "x")
    m.like(x, (4, 8), "y")
    m.like(x, (4, 8), "z")
    m.op("UNPACK", ["x"], {"axis": 1, "num": 2})


@_case("PADV2", "f32", "i8")
def _padv2(m: Maker) -> None:
    x = m.input(_SHAPE)
    fill = m.numbers((1,))
    m.others.append(tensor("f", (1,), _TYPES[m.kind], data=fill, **m.same(x)))
    m.like(x, (2, 5, 9, 8))
    amounts = m.constant([[0, 0], [1, 0], [2, 1], [0, 0]], "p")
    m.op("PADV2", ["x", amounts, "f"])


def _resize(name: str) -> None:
    @_case(name)
    def _make(m: Maker) -> None:
        h, w = _pick(m, (10, 14), (5, 7), (8, 3), (1, 9), (13, 17))
        x = m.input((2, 5, 7, 4))
        m.like(x, (2, h, w, 4))
        flags = {
            "align_corners": bool(_pick(m, False, True)),
            "half_pixel_centers": bool(_pick(m, False, True)),
        }
        if all(flags.values()):
            flags["align_corners"] = False
        m.op(name, ["x", m.constant([h, w], "n")], flags)


_resize("RESIZE_BILINEAR")
_resize("RESIZE_NEAREST_NEIGHBOR")


def _place(name: str) -> None:
    @_case(name, "f32", "i8")
    def _make(m: Maker) -> None:
        m.input((2, 5, 8))
        m.output((2, 5), kind="INT32")
        m.op(name, ["x", m.constant([2], "a")], {"output_type": "INT32"})


_place("ARG_MAX")
_place("ARG_MIN")


@_case("TOPK_V2", "f32", "i8")
def _top(m: Maker) -> None:
    x = m.input((3, 40))
    m.like(x, (3, 5))
    m.output((3, 5), "i", kind="INT32")
    m.op("TOPK_V2", ["x", m.constant(np.array(5, np.int32), "k")])


@_case("SELECT_V2", "f32", "i8")
def _select(m: Maker) -> None:
    m.plain(m.rng.integers(0, 2, (2, 5, 8)).astype(np.bool_), "c")
    x = m.input((2, 5, 8), "x")
    m.input((1, 5, 8), "v", **m.same(x))
    m.like(x, (2, 5, 8))
    m.op("SELECT_V2", ["c", "x", "v"])


@_case("CUMSUM", "f32")
def _cumsum(m: Maker) -> None:
    m.input((3, 7))
    m.output((3, 7))
    flags = {"exclusive": bool(_pick(m, False, True)), "reverse": bool(_pick(m, False, True))}
    m.op("CUMSUM", ["x", m.constant(np.array(1, np.int32), "a")], flags)


@_case("POW", "f32")
def _power(m: Maker) -> None:
    m.input((3, 7))
    m.values[0] = np.abs(m.values[0]) + np.float32(0.1)
    m.output((3, 7))
    exponent = m.constant(np.array([1.7], np.float32), "e", "FLOAT32")
    m.op("POW", ["x", exponent])


@_case("GATHER_ND", "f32")
def _gather_nd(m: Maker) -> None:
    m.input((4, 5, 6))
    m.output((3, 6))
    m.op("GATHER_ND", ["x", m.constant([[0, 1], [3, 4], [2, 2]], "i")])


@_case("SCATTER_ND", "f32")
def _scatter_nd(m: Maker) -> None:
    m.input((3, 6))
    m.output((5, 6))
    places, shape = m.constant([[0], [3], [0]], "i"), m.constant([5, 6], "n")
    m.op("SCATTER_ND", [places, "x", shape])


@_case("UNIDIRECTIONAL_SEQUENCE_LSTM", "f32")
def _lstm(m: Maker) -> None:
    m.input((2, 5, 3))
    m.output((2, 5, 4))
    names = [m.constant(m.numbers((4, 3)) / 2, f"w{k}", "FLOAT32") for k in range(4)]
    names += [m.constant(m.numbers((4, 4)) / 2, f"r{k}", "FLOAT32") for k in range(4)]
    names += [""] * 3 + [m.constant(m.numbers((4,)), f"b{k}", "FLOAT32") for k in range(4)]
    for state in ("h", "c"):
        m.others.append(tensor(state, (2, 4), variable=True))
    options = {"fused_activation_function": "TANH", "time_major": False}
    m.op("UNIDIRECTIONAL_SEQUENCE_LSTM", ["x", *names, "", "", "h", "c", *[""] * 4], options)


def _drawn(name: str) -> Callable[[Callable[[Maker], None]], Any]:
    """An op that is drawn on codes though no case runs it everywhere."""

    def register(draw: Callable[[Maker], None]) -> Any:
        DRAWN[name] = draw
        return draw

    return register


@_drawn("ADD_N")
def _add_n(m: Maker) -> None:
    x = m.input((2, 5, 8), "x")
    m.input((2, 5, 8), "v", **m.same(x))
    m.like(x, (2, 5, 8))
    m.op("ADD_N", ["x", "v"])


@_drawn("CONV_3D_TRANSPOSE")
def _conv3_transposed(m: Maker) -> None:
    x = m.input((1, 4, 5, 5, 2))
    w = m.weights((2, 3, 3, 3, 2), 3)
    b = m.bias(3, x)
    shape = (1, 4, 5, 5, 3)
    m.output(shape)
    options = {"padding": "SAME", "stride_d": 1, **_WINDOW}
    factors = {f"dilation_{d}_factor": 1 for d in "dhw"}
    names = [m.constant(shape, "shape"), w, "x", b]
    m.op("CONV_3D_TRANSPOSE", names, {**options, **factors})


@_drawn("EMBEDDING_LOOKUP")
def _embedding(m: Maker) -> None:
    x = m.qparams()
    rows = m.numbers((9, 8))
    m.others.append(tensor("x", (9, 8), _TYPES[m.kind], data=rows, **x))
    m.plain(m.rng.integers(0, 9, (5,)).astype(np.int32), "i")
    m.output((5, 8), **x)
    m.op("EMBEDDING_LOOKUP", ["i", "x"])


@_drawn("FILL")
def _fill(m: Maker) -> None:
    x = m.input((), "x")
    m.like(x, (2, 3))
    m.op("FILL", [m.constant([2, 3], "n"), "x"])


@_drawn("ZEROS_LIKE")
def _zeros(m: Maker) -> None:
    x = m.input((2, 5, 8), "x")
    m.like(x, (2, 5, 8))
    m.op("ZEROS_LIKE", ["x"])


@_drawn("ONE_HOT")
def _one_hot(m: Maker) -> None:
    x = m.qparams()
    for name in ("x", "v"):
        m.others.append(tensor(name, (), _TYPES[m.kind], data=m.numbers(()), **x))
    m.output((5, 7), **x)
    places = m.constant([0, 3, 2, 6, 3], "i")
    m.op("ONE_HOT", [places, m.constant(np.array(7, np.int32), "n"), "x", "v"], {"axis": -1})


@_drawn("SELECT")
def _select_v1(m: Maker) -> None:
    m.plain(m.rng.integers(0, 2, (2, 5, 8)).astype(np.bool_), "c")
    x = m.input((2, 5, 8), "x")
    m.input((2, 5, 8), "v", **m.same(x))
    m.like(x, (2, 5, 8))
    m.op("SELECT", ["c", "x", "v"])


@_drawn("SHAPE")
def _shape_of(m: Maker) -> None:
    m.input((2, 5, 8), "x")
    m.output((3,), kind="INT32")
    m.op("SHAPE", ["x"], {"out_type": "INT32"})


@_drawn("WHERE")
def _where(m: Maker) -> None:
    m.input((2, 5), "x")
    m.output((10, 2), kind="INT64")
    m.op("WHERE", ["x"])


@_drawn("RANGE")
def _range(m: Maker) -> None:
    x = m.input((), "x")
    for name in ("v", "u"):
        m.input((), name, **m.same(x))
    m.values = [np.array(n, m.values[0].dtype) for n in (1, 9, 2)]
    m.like(x, (4,))
    m.op("RANGE", ["x", "v", "u"])


for _name in ("FLOOR_DIV", "FLOOR_MOD"):

    @_drawn(_name)
    def _divided(m: Maker, name: str = _name) -> None:
        x = m.input((2, 5, 8), "x")
        m.input((2, 5, 8), "v", **m.same(x))
        m.values[1][m.values[1] == 0] = 1
        m.like(x, (2, 5, 8))
        m.op(name, ["x", "v"])


for _name in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"):

    @_drawn(_name)
    def _logical(m: Maker, name: str = _name) -> None:
        names = ["x"] if name == "LOGICAL_NOT" else ["x", "v"]
        x = m.input((2, 5, 8), "x")
        for other in names[1:]:
            m.input((2, 5, 8), other, **m.same(x))
        m.like(x, (2, 5, 8))
        m.op(name, names)


for _name in ("REDUCE_ANY", "REDUCE_ALL"):

    @_drawn(_name)
    def _of_booleans(m: Maker, name: str = _name) -> None:
        x = m.input((2, 5, 8), "x")
        m.like(x, (2, 8))
        m.op(name, ["x", m.constant([1], "axes")], {"keep_dims": False})
