"""Fused activation functions as ops of their own, on codes with bounds that are codes.

The kernels round first and clamp after; each engine rounds the bounds in its way.
"""

from __future__ import annotations

from math import inf
from typing import Any, cast

from xdsl.ir import SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir import ops as nn
from qdialect.ir.quant import quant_element
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.tflite.numerics.scales import Engine, activation_bounds
from qdialect.plugins.tflite.raising.raiser import Raiser

BOUNDS = {
    "NONE": (-inf, inf),
    "RELU": (0.0, inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
"""What the functions clamp to."""


def activated(r: Raiser, value: SSAValue, name: str, engine: str = "") -> SSAValue:
    """The activation function `name` of a value, as an engine has it (by default that of the op
    that is raised)."""
    element = quant_element(value.type)
    if name not in BOUNDS:
        raise Unraisable("activation", f"its fused activation is '{name}'")
    if element is not None:
        return _clamped(r, value, element.qparams, name, engine or r.kernel)
    low, high = BOUNDS[name]
    if (low, high) == (-inf, inf):
        return value
    if (low, high) == (0.0, inf):
        return r.op(nn.ReluOp, value)
    return r.op(nn.ClipOp, value, min=low, max=high)


def _clamped(r: Raiser, value: SSAValue, params: QParams, name: str, engine: str) -> SSAValue:
    storage, zero = params.storage, params.zero_point
    low, high = BOUNDS[name]
    least, most = activation_bounds(
        cast("Engine", engine), name, params.scale, zero, storage.min, storage.max
    )
    if least > most:
        raise Unraisable("activation", "its bounds are beyond all codes")
    if (least, most) == (storage.min, storage.max):
        return value
    if least == zero and most == storage.max:
        return r.op(nn.ReluOp, value)
    bounds: dict[str, Any] = {}
    if low != -inf and least > storage.min:
        bounds["min"] = (least - zero) * params.scale
    if high != inf and most < storage.max:
        bounds["max"] = (most - zero) * params.scale
    return r.op(nn.ClipOp, value, **bounds)
