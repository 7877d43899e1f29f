"""The dialect `check` of StableHLO's own tests: what a result should be.

An op that holds gives nothing; one that does not is an InputError (`check-failed`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import FloatAttr

from qdialect.errors import InputError
from qdialect.interpreter.values import Array
from qdialect.ir.quant import element_type
from qdialect.plugins.stablehlo.interpreter.call import Call, Function, as_numbers
from qdialect.plugins.stablehlo.interpreter.literals import literal

_TOLERANCE = 1e-4


def _expected(call: Call, operands: Sequence[Array]) -> tuple[Array, Array]:
    kind = call.operand_types[0]
    other = (
        operands[1] if len(operands) > 1 else literal(call.require("value"), kind, call.evaluation)
    )
    return as_numbers(operands[0], kind), as_numbers(other, kind)


def _require(call: Call, holds: Array, actual: Array, expected: Array) -> list[Array]:
    wrong = np.argwhere(~np.asarray(holds, bool).reshape(actual.shape))
    if len(wrong):
        index = tuple(int(i) for i in wrong[0])
        raise InputError(
            f"'{call.name}' op does not hold: {len(wrong)} of {actual.size} elements differ, "
            f"at {list(index)} {actual[index]} is not {expected[index]}",
            code="check-failed",
        )
    return []


def _equal(call: Call, operands: Sequence[Array]) -> list[Array]:
    actual, expected = _expected(call, operands)
    both_nan = (actual != actual) & (expected != expected)
    return _require(call, (actual == expected) | both_nan, actual, expected)


def _almost_equal(call: Call, operands: Sequence[Array]) -> list[Array]:
    actual, expected = _expected(call, operands)
    said = call.attribute("tolerance")
    tolerance = said.value.data if isinstance(said, FloatAttr) else _TOLERANCE
    if actual.dtype.kind == "c":
        holds = _near(np.real(actual), np.real(expected), tolerance)
        return _require(
            call, holds & _near(np.imag(actual), np.imag(expected), tolerance), actual, expected
        )
    return _require(call, _near(actual, expected, tolerance), actual, expected)


def is_near(call: Call, operands: Sequence[Array]) -> bool:
    """Whether two operands are equal within the tolerance of the checks."""
    actual, expected = _expected(call, operands)
    return bool(_near(actual, expected, _TOLERANCE).all())


def _near(a: Array, b: Array, tolerance: float) -> Array:
    with np.errstate(all="ignore"):
        near = np.abs(a.astype(np.float64) - b.astype(np.float64)) <= tolerance
    return near | (a == b) | ((a != a) & (b != b))


def _close(call: Call, operands: Sequence[Array]) -> list[Array]:
    actual, expected = operands
    most, least = call.integer("max_ulp_difference", 1), call.integer("min_ulp_difference", 0)
    if actual.dtype.kind == "c":
        parts = [(np.real(actual), np.real(expected)), (np.imag(actual), np.imag(expected))]
    else:
        parts = [(actual, expected)]
    holds = np.ones(actual.shape, bool)
    for a, b in parts:
        apart = _floats_between(
            np.ascontiguousarray(a),
            np.ascontiguousarray(b),
            str(element_type(call.operand_types[0])),
        )
        finite = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | ((a != a) & (b != b))
        holds = holds & np.where(finite, (apart <= most) & (apart >= least), same)
    return _require(call, holds, actual, expected)


def _floats_between(a: Array, b: Array, element: str) -> Array:
    """How many floats of the type are between two."""
    shift = 16 if element == "bf16" else 0
    places: list[Array] = []
    for x in np.broadcast_arrays(a, b):
        size = x.dtype.itemsize
        bits = np.array(x.view(f"i{size}").astype(object) >> shift, object)
        places.append(np.where(bits < 0, -(bits + (1 << (8 * size - 1 - shift))), bits))
    return np.abs(np.asarray(places[0] - places[1], object)).astype(np.float64)


FUNCTIONS: dict[str, Function] = {
    "expect_almost_eq": _almost_equal,
    "expect_almost_eq_const": _almost_equal,
    "expect_close": _close,
    "expect_eq": _equal,
    "expect_eq_const": _equal,
}
"""By name, without the dialect."""
