"""Elementwise ops of CHLO: functions that StableHLO lacks, and ops that broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from qdialect.errors import UnsupportedError
from qdialect.interpreter.small_floats import is_small_float
from qdialect.interpreter.values import Array
from qdialect.plugins.stablehlo.interpreter import special
from qdialect.plugins.stablehlo.interpreter.call import Call, Function, width_of, wrapped
from qdialect.plugins.stablehlo.interpreter.elementwise import FUNCTIONS, double, numeric


def _mulhi(call: Call, operands: Sequence[Array]) -> list[Array]:
    a, b = (x.astype(object) for x in operands)
    high = (a * b) >> width_of(call.result_types[0])
    mask = (1 << 64) - 1
    flat = np.array([int(v) & mask for v in np.asarray(high).reshape(-1)], np.uint64)
    return [wrapped(flat.reshape(operands[0].shape), call.result_types[0])]


def _next_after(call: Call, operands: Sequence[Array]) -> list[Array]:
    if call.dtype == np.float16 or is_small_float(str(call.element)) or str(call.element) == "bf16":
        raise UnsupportedError(f"'{call.name}' of {call.element}")
    return [np.nextafter(*operands)]


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    def on_array(x: Array) -> Array:
        return np.array([function(v) for v in x.reshape(-1).tolist()], np.float64).reshape(x.shape)

    return on_array


CHLO: dict[str, Function] = {
    "acos": numeric(double(np.arccos)),
    "acosh": numeric(double(np.arccosh)),
    "asin": numeric(double(np.arcsin)),
    "asinh": numeric(double(np.arcsinh)),
    "atan": numeric(double(np.arctan)),
    "atanh": numeric(double(np.arctanh)),
    "bessel_i1e": numeric(double(special.bessel_i1e)),
    "conj": numeric(np.conj),
    "cosh": numeric(double(np.cosh)),
    "digamma": numeric(double(special.digamma)),
    "erf": numeric(double(_elementwise(math.erf))),
    "erf_inv": numeric(double(special.erf_inv)),
    "erfc": numeric(double(_elementwise(math.erfc))),
    "is_inf": numeric(np.isinf),
    "is_neg_inf": numeric(np.isneginf),
    "is_pos_inf": numeric(np.isposinf),
    "lgamma": numeric(double(special.lgamma)),
    "mulhi": _mulhi,
    "next_after": _next_after,
    "polygamma": numeric(double(special.polygamma)),
    "sinh": numeric(double(np.sinh)),
    "square": numeric(np.square),
    "tan": numeric(double(np.tan)),
    "zeta": numeric(double(special.zeta)),
}
"""The ops of CHLO of one shape; those that broadcast are `broadcast_...` of these."""


def _broadcasting(function: Function) -> Function:
    """Operands are broadcast as numpy does, where `broadcast_dimensions` says nothing else."""

    def kernel(call: Call, operands: Sequence[Array]) -> Sequence[Array]:
        rank = max(x.ndim for x in operands)
        where = call.attribute("broadcast_dimensions")
        placed: list[Array] = []
        for x in operands:
            shape = [1] * rank
            dims: Sequence[int] = range(rank - x.ndim, rank)
            if where is not None and x.ndim < rank:
                dims = call.ints("broadcast_dimensions")
            for d, n in zip(dims, x.shape, strict=True):
                shape[d] = n
            placed.append(x.reshape(shape))
        return function(call, np.broadcast_arrays(*placed))

    return kernel


_BROADCAST: dict[str, Function] = {
    **{
        f"broadcast_{name}": _broadcasting(FUNCTIONS[name])
        for name in (
            *("add", "and", "atan2", "compare", "complex", "divide", "maximum", "minimum"),
            *("multiply", "or", "power", "remainder", "select", "shift_left", "subtract", "xor"),
            *("shift_right_arithmetic", "shift_right_logical"),
        )
    },
    **{f"broadcast_{name}": _broadcasting(CHLO[name]) for name in ("next_after", "polygamma")},
    "broadcast_zeta": _broadcasting(CHLO["zeta"]),
}
CHLO.update(_BROADCAST)
