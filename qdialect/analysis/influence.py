"""What a change of one operand does to the result of an op, in real units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil, inf, isfinite

from xdsl.dialects.builtin import Float32Type, Float64Type
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.gain import gain_of
from qdialect.behaviors import Behavior
from qdialect.behaviors.flow import tied_operands
from qdialect.context import QContext
from qdialect.qparams import QParams
from qdialect.quant import DCastOp, QCastOp, RescaleOp, SCastOp, element_type

#: what a few roundings in f32 add, relative
_FLOATS = 1 + 2.0**-20


def influence(session: QContext, op: Operation, index: int) -> tuple[float, float] | None:
    """(a, b): results move by at most a * d + b when operand `index` moves by d > 0;
    None if there is no bound. b is the rounding of results to codes."""
    factor = _factor(session, op, index)
    if factor is None or not isfinite(factor):
        return None
    return factor, max((_rounding(session, op, result) for result in op.results), default=0.0)


def moved(session: QContext, op: Operation, by: Callable[[SSAValue], float]) -> float:
    """How far results of `op` move when its operands move by `by`, rounded to codes."""
    total = 0.0
    for index, operand in enumerate(op.operands):
        change = by(operand)
        if change:
            factor = _factor(session, op, index) if isfinite(change) else None
            total += inf if factor is None else factor * change
    if not total or not isfinite(total):
        return total
    step = max((_rounding(session, op, result) for result in op.results), default=0.0)
    if isinstance(op, QCastOp):
        step += step * 2.0**-10  # floats below have lost a little
    params = qparams_of(op.results[0]) if len(op.results) == 1 else None
    if step and params is not None and params.count == 1 and not isinstance(op, QCastOp):
        return _whole(total / step) * step
    return total + step


def _whole(steps: float) -> int:
    """Rounded up, but for what float64 bounds have lost."""
    nearest = round(steps)
    return nearest if abs(steps - nearest) <= steps * 2.0**-30 else ceil(steps)


def _rounding(session: QContext, op: Operation, result: SSAValue) -> float:
    """The largest step of a result that is rounded to codes."""
    params = qparams_of(result)
    if isinstance(op, SCastOp):
        return 0.0
    if isinstance(op, DCastOp):
        source = qparams_of(op.input)
        # Two products of a code and a scale, each off by half a unit in the last place.
        return max(source.scale_list()) * 2.0 ** (source.storage.width - 22) if source else inf
    if params is None:
        return 0.0
    behavior = session.behaviors.get(op)
    if behavior is not None and behavior.commutes and _only_copies(op, behavior, params):
        return 0.0
    return max(params.scale_list())


def _only_copies(op: Operation, behavior: Behavior, result: QParams) -> bool:
    if not behavior.requantizes_inputs:
        return True
    return all(qparams_of(op.operands[i]) == result for i in tied_operands(op, behavior))


def _factor(session: QContext, op: Operation, index: int) -> float | None:
    if isinstance(op, QCastOp | RescaleOp | DCastOp):
        floats = isinstance(op, QCastOp | DCastOp)
        wide = not floats or isinstance(
            element_type(op.input.type if isinstance(op, QCastOp) else op.result.type),
            Float32Type | Float64Type,
        )
        return (_FLOATS if floats or op.fixed_point else 1.0) if wide else None
    if isinstance(op, SCastOp):
        # Integers that are read as codes move by steps.
        source, result = qparams_of(op.input), qparams_of(op.result)
        if source is not None:
            return 1 / min(source.scale_list()) if is_integer(source) else None
        return max(result.scale_list()) if result is not None and is_integer(result) else None
    behavior = session.behaviors.get(op)
    if behavior is None:
        return None
    if behavior.commutes:
        return 1.0 if index in tied_operands(op, behavior) else None
    acc = behavior.accumulator
    if acc is not None and index == acc.bias:
        return 1.0
    params = qparams_of(op.operands[index])
    if params is not None and not is_integer(params):
        return None
    if params is None:
        return None
    low, high = params.storage.full_range
    whole = params.with_storage(replace(params.storage, min=low, max=high))
    gain = gain_of(session, op, behavior, index, [whole])
    return gain if qparams_of(op.results[0]) is not None else None
