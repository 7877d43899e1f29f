"""Models of one QONNX node, and what its ops mean, restated in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx_models import ModelBuilder

Array = NDArray[Any]

DOMAIN = "qonnx.custom_op.general"


def _away(x: Array) -> Array:
    return np.sign(x) * np.ceil(np.abs(x))


def _half_up(x: Array) -> Array:
    return np.sign(x) * np.floor(np.abs(x) + np.float32(0.5))


def _half_down(x: Array) -> Array:
    return np.sign(x) * np.ceil(np.abs(x) - np.float32(0.5))


ROUNDING: dict[str, Callable[[Array], Array]] = {
    "ROUND": np.rint,
    "HALF_EVEN": np.rint,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": _away,
    "DOWN": np.trunc,
    "HALF_UP": _half_up,
    "HALF_DOWN": _half_down,
}
"""The modes as QONNX's executor defines them."""


def code_bounds(bits: int, signed: bool, narrow: bool) -> tuple[int, int]:
    codes = 2**bits - bool(narrow)
    high = 2 ** (bits - 1) - 1 if signed else codes - 1
    return high - codes + 1, high


def quant(
    x: Array,
    scale: Any,
    zero: Any,
    bits: int,
    signed: bool = True,
    narrow: bool = False,
    mode: str = "ROUND",
) -> Array:
    """`Quant`, in f32."""
    scale, zero = np.asarray(scale, np.float32), np.asarray(zero, np.float32)
    y = x / scale + zero
    if bits == 1 and signed:
        y = np.where(y >= 0, np.float32(1), np.float32(-1))
    else:
        low, high = code_bounds(bits, signed, narrow)
        y = ROUNDING[mode](np.clip(y, np.float32(low), np.float32(high)))
    return (y - zero) * scale


def trunc_1(x: Array, scale: Any, zero: Any, before: int, after: int, mode: str) -> Array:
    """`Trunc` of version 1."""
    scale, zero = np.asarray(scale, np.float32), np.asarray(zero, np.float32)
    y = np.rint(x / scale + zero) / np.float32(2.0 ** (before - after))
    return (ROUNDING[mode](y) - zero) * scale


def trunc_2(
    x: Array,
    scale: Any,
    zero: Any,
    new: Any,
    bits: int,
    signed: bool = True,
    narrow: bool = False,
    mode: str = "FLOOR",
) -> Array:
    """`Trunc` of version 2."""
    scale, zero, new = (np.asarray(a, np.float32) for a in (scale, zero, new))
    factor = 2 ** np.rint(np.log2(new / scale))
    low, high = code_bounds(bits, signed, narrow)
    y = np.rint(x / scale + zero) / factor
    y = ROUNDING[mode](np.clip(y, np.float32(low), np.float32(high)))
    return (y - zero / factor) * new


def float_quant(
    x: Array, scale: Any, exponent: int, mantissa: int, bias: int, greatest: float
) -> Array:
    """`FloatQuant` to nearest, saturating; the exponent is exact."""
    scale = np.asarray(scale, np.float32)
    y = (x / scale).astype(np.float64)
    step = 2.0 ** np.maximum(np.frexp(y)[1] - 1 - mantissa, 1 - bias - mantissa)
    most = (2 - 2.0**-mantissa) * 2.0 ** (2.0**exponent - 1 - bias)
    y = np.clip(np.rint(y / step) * step, -min(most, greatest), min(most, greatest))
    return y.astype(np.float32) * scale


def samples(scale: Any, shape: Sequence[int], seed: int, zero: Any = 0) -> Array:
    """Numbers on, near and far from half-way points of a grid, and beyond its ends."""
    rng = np.random.default_rng(seed)
    scale = np.asarray(scale, np.float32)
    steps = rng.integers(-600, 601, shape).astype(np.float32) / 2 - np.asarray(zero, np.float32)
    near = rng.choice(np.array([0, 1, -1, 3], np.float32), shape) * np.float32(2**-22)
    x = (steps * (1 + near)).astype(np.float32) * scale
    spread = (rng.normal(size=shape) * 40).astype(np.float32) * scale
    return np.where(rng.random(shape) < 0.7, x, spread).astype(np.float32)


def node_model(
    op: str,
    shape: Sequence[int | str],
    parameters: Sequence[Any],
    x: Array | None = None,
    domain: str = DOMAIN,
    opset: int = 17,
    **attributes: Any,
) -> onnx.ModelProto:
    """`y = op(x, *parameters)`, with constant parameters; x is an input, or the constant `x`."""
    b = ModelBuilder(opset)
    if x is None:
        b.input("x", shape)
    else:
        b.const("w", x, np.float32)
        b.input("x", x.shape)
    names = ["x" if x is None else "w"]
    names += [b.const(f"p{n}", value, np.float32) for n, value in enumerate(parameters)]
    if x is None:
        b.node(op, names, "y", domain=domain, **attributes)
    else:  # beside a value that is computed, for a runtime folds a graph of constants
        b.node("Add", ["x", b.node(op, names, "wq", domain=domain, **attributes)], "y")
    b.output("y", np.float32, shape if x is None else x.shape)
    return b.model(check=False)
