"""Ops of an elementwise chain on all codes of its root, in float32, op by op.

What `chains` computes in the reals, for a module whose quantized ops are defined in floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.behaviors import Behavior
from qdialect.context import QContext
from qdialect.numerics import requantize as exact
from qdialect.numerics.float_spans import (
    FLOATS,
    CodeSpan,
    FloatSpan,
    InexactError,
    approximated,
)
from qdialect.numerics.rounding import Rounding
from qdialect.ops import constant_array, constant_of
from qdialect.passes.constant_scalars import scalar_of
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, QCastOp, RescaleOp, cast_rounding, element_type
from qdialect.rewrite import Refusal

Span = CodeSpan | FloatSpan

_NAN = Refusal("undecided", "a result is not a number")
_OTHER_FLOATS = Refusal("unsupported", "it computes in other floats than f32")


def computed(
    op: Operation,
    behavior: Behavior | None,
    held: Sequence[Span | None],
    session: QContext,
) -> Span | Refusal:
    """The result of `op`, given its operands (None: a constant)."""
    result = op.results[0]
    params = qparams_of(result)
    if isinstance(op, DCastOp):
        return _floats(op.input, held[0], session)
    if isinstance(op, QCastOp):
        return _quantized(held[0], params, cast_rounding(op))
    if isinstance(op, RescaleOp):
        value = _floats(op.input, held[0], session)
        return value if isinstance(value, Refusal) else _quantized(value, params, op.rounding)
    assert behavior is not None
    if params is not None and (behavior.on_stored or behavior.choose):
        return _on_codes(op, behavior, held, session)
    values: list[FloatSpan] = []
    for operand, each in zip(op.operands, held, strict=True):
        value = _floats(operand, each, session)
        if isinstance(value, Refusal):
            return value
        values.append(value)
    with np.errstate(all="ignore"):
        made = _function(op, behavior, values, session)
    if isinstance(made, Refusal) or params is None:
        return made
    return _quantized(made, params, rounding_of(op))


def _floats(value: SSAValue, held: Span | None, session: QContext) -> FloatSpan | Refusal:
    """A value as floats: dequantized, if it has codes."""
    params = qparams_of(value)
    if params is None and str(element_type(value.type)) != FLOATS:
        return _OTHER_FLOATS
    if params is not None and params.expressed != FLOATS:
        return _OTHER_FLOATS
    if held is None:
        held = _constant(value, params, session)
    if isinstance(held, CodeSpan):
        assert params is not None
        return FloatSpan.of_codes(held, exact.affine(params))
    return held


def _constant(value: SSAValue, params: QParams | None, session: QContext) -> Span:
    constant = constant_of(value)
    assert constant is not None
    array = constant_array(constant, session.blobs).reshape(-1)[:1]
    return FloatSpan.exactly(array) if params is None else CodeSpan.exactly(array.astype(np.int64))


def _quantized(held: Span | None, params: QParams | None, rounding: Rounding) -> Span | Refusal:
    assert params is not None and isinstance(held, FloatSpan)
    if held.has_nan:
        return _NAN
    return held.quantized(exact.affine(params), rounding)


def _on_codes(
    op: Operation, behavior: Behavior, held: Sequence[Span | None], session: QContext
) -> CodeSpan | Refusal:
    """An op that is defined on codes, or picks one of two."""
    function = behavior.on_stored or behavior.choose
    assert function is not None
    arrays: list[CodeSpan] = []
    for operand, each in zip(op.operands, held, strict=True):
        if each is None:
            constant = constant_of(operand)
            assert constant is not None
            array = constant_array(constant, session.blobs)
            whole = array if behavior.on_stored else array.reshape(-1)[:1]
            each = CodeSpan.exactly(whole.astype(np.int64))
        assert isinstance(each, CodeSpan)
        arrays.append(each)
    if behavior.on_stored and any(each.undecided for each in arrays):
        return Refusal("undecided", "floats do not decide what is looked up")
    ends: list[NDArray[Any]] = [function(op, side) for side in zip(*arrays, strict=True)]
    return CodeSpan(*(end.astype(np.int64) for end in ends))


def _function(
    op: Operation, behavior: Behavior, values: Sequence[FloatSpan], session: QContext
) -> FloatSpan | Refusal:
    bounds = behavior.clamp(op) if behavior.clamp else None
    x = values[0]
    if behavior.as_clamp is not None:
        numbers = [scalar_of(v, session) for v in op.operands]
        found = behavior.as_clamp(op, numbers) if numbers.count(None) == 1 else None
        if found is None:
            return Refusal("unsupported", f"'{op.name}' of two values is no function here")
        low, high = found
        bounds = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
        x = values[numbers.index(None)]
    if bounds is not None:
        return x.clip(*bounds)
    words = behavior.analytic or behavior.arithmetic
    if words is None:
        return Refusal("unsupported", f"nothing says exactly what '{op.name}' computes")
    try:
        steps = behavior.in_floats or words
        return steps(op, list(values))
    except (InexactError, ValueError):
        pointwise = behavior.pointwise
        if pointwise is None or len(values) != 1:
            return Refusal("unsupported", f"floats do not say what '{op.name}' computes")
        return approximated(lambda v: words(op, v), lambda v: pointwise(op, v), x)
