"""The rounding modes that QONNX names, as float ops and on arrays.

    DOWN(x) = floor(max(x, 0)) + ceil(min(x, 0))

Modes that look at the sign are a function of the positive part and one of the negative part,
of which one is of 0 and gives 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from qdialect.ir import ops as nn
from qdialect.ir.ops import make_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.plugins.onnx.read.importer import Importer


@dataclass(frozen=True)
class Half:
    """What becomes of one sign: `offset` is added, then it is rounded up or down."""

    offset: float
    up: bool


NEAREST = frozenset({"ROUND", "HALF_EVEN"})
"""To the nearest integer, halves to the even one."""

_ONE_WAY = {"CEIL": True, "FLOOR": False}

_BY_SIGN: Mapping[str, tuple[Half, Half]] = {
    "UP": (Half(0.0, True), Half(0.0, False)),
    "DOWN": (Half(0.0, False), Half(0.0, True)),
    "ROUND_TO_ZERO": (Half(0.0, False), Half(0.0, True)),
    "HALF_UP": (Half(0.5, False), Half(-0.5, True)),
    "HALF_DOWN": (Half(-0.5, True), Half(0.5, False)),
}
"""By mode: the positive part, the negative part."""

MODES = NEAREST | _ONE_WAY.keys() | _BY_SIGN.keys()


def rounded(imp: Importer, x: SSAValue, mode: str) -> SSAValue:
    """Floats rounded by one of `MODES`."""
    if mode in NEAREST:
        return imp.emit(nn.RoundOp(x)).results[0]
    if mode in _ONE_WAY:
        return _to_integer(imp, x, _ONE_WAY[mode])
    positive, negative = _BY_SIGN[mode]
    parts = [
        _half(imp, imp.emit(nn.ClipOp(x, min=0.0)).results[0], positive),
        _half(imp, imp.emit(nn.ClipOp(x, max=0.0)).results[0], negative),
    ]
    return imp.emit(nn.AddOp(*parts)).results[0]


def _half(imp: Importer, x: SSAValue, half: Half) -> SSAValue:
    if half.offset:
        x = imp.emit(nn.AddOp(x, number(imp, half.offset))).results[0]
    return _to_integer(imp, x, half.up)


def _to_integer(imp: Importer, x: SSAValue, up: bool) -> SSAValue:
    return imp.emit((nn.CeilOp if up else nn.FloorOp)(x)).results[0]


def number(imp: Importer, value: float) -> SSAValue:
    """A scalar constant of type f32."""
    import numpy as np

    return imp.emit(make_constant(np.array(value, np.float32), f32, imp.ctx.blobs)).results[0]


def rounded_array(x: NDArray[Any], mode: str) -> NDArray[Any]:
    """An array rounded by one of `MODES`."""
    import numpy as np

    if mode in NEAREST:
        return np.round(x)
    steps: dict[bool, Callable[[Any], Any]] = {True: np.ceil, False: np.floor}
    if mode in _ONE_WAY:
        return steps[_ONE_WAY[mode]](x)
    positive, negative = _BY_SIGN[mode]
    above = steps[positive.up](np.maximum(x, np.float32(0)) + np.float32(positive.offset))
    below = steps[negative.up](np.minimum(x, np.float32(0)) + np.float32(negative.offset))
    return above + below
