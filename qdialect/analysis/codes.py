"""What is known of the codes a quantized value can hold."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from qdialect.behaviors import BehaviorRegistry
from qdialect.behaviors import Rule as PortRule
from qdialect.dialects.quant import QCastOp, RescaleOp, quant_element
from qdialect.numerics import requantize as exact
from qdialect.qparams import QParams

#: expressed type -> (significand bits, largest finite, smallest normal)
_FLOATS = {
    "f16": (11, 65504.0, 2.0**-14),
    "bf16": (8, 3.3895313892515355e38, 2.0**-126),
    "f32": (24, 3.4028234663852886e38, 2.0**-126),
    "f64": (53, 1.7976931348623157e308, 2.0**-1022),
}


def qparams_of(value: SSAValue) -> QParams | None:
    """The qparams of a quantized value, else None."""
    element = quant_element(value.type)
    return None if element is None else element.qparams


def is_integer(params: QParams) -> bool:
    """Whether codes are plain integers (neither floats nor indices of a table)."""
    return not params.storage.is_float and params.storage.quantile is None


def inside_bounds(value: SSAValue, behaviors: BehaviorRegistry) -> bool:
    """Whether every code of `value` is provably within its storage bounds: the
    bounds are the storage's own, or the value was clamped when it was made."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        current = pending.pop()
        params = qparams_of(current)
        if params is None or params.storage.is_full_range or current in seen:
            continue
        seen.add(current)
        owner = current.owner
        if isinstance(owner, QCastOp | RescaleOp):
            continue
        behavior = behaviors.get(owner) if isinstance(owner, Operation) else None
        if behavior is None or not isinstance(owner, Operation):
            return False
        if behavior.is_tied:
            pending += [
                v
                for i, v in enumerate(owner.operands)
                if behavior.operand_port(i).rule is PortRule.TIED
            ]
    return True


def seen_qparams(value: SSAValue, behaviors: BehaviorRegistry) -> QParams | None:
    """The qparams of `value`, with the storage's own bounds unless every code is
    provably within the declared ones: what a decision over all codes must look at."""
    params = qparams_of(value)
    if params is None or not is_integer(params) or inside_bounds(value, behaviors):
        return params
    low, high = params.storage.full_range
    return params.with_storage(replace(params.storage, min=low, max=high))


def survives_float(params: QParams) -> bool:
    """Whether quantize(dequantize(q)) = q for every code, in the expressed type.

    Two roundings move n = q - z by at most n * 2**(1-p); that stays below half a
    step while |n| < 2**(p-2), if n * scale neither overflows nor underflows.
    """
    if params.expressed not in _FLOATS:
        return False
    bits, largest, smallest = _FLOATS[params.expressed]
    for a in exact.affines(params):
        furthest = max(abs(a.low - a.zero), abs(a.high - a.zero))
        if furthest >= 2 ** (bits - 2) or a.scale < smallest or furthest * a.scale > largest:
            return False
    return True
