"""What lowerings require of operands and results: each function raises Unlowerable, which
becomes an error with the nearest form that can be lowered, before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from xdsl.ir import Operation

from qdialect.algebra.qparams import QParams
from qdialect.algebra.requantize import quant_grids, represents
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.analysis.ranges import ranges
from qdialect.ir.ops.base import NNOp
from qdialect.ir.ops.shapes import normalize_axes
from qdialect.passes.rescale.split_rescale import (
    accumulator_qparams,
    operand_qparams,
    split_refusal,
)
from qdialect.plugins.common.lowering.emitter import BaseEmitter
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order, identity_order
from qdialect.rewrite import Refusal

_MAX = 2**31 - 1


def is_on_codes(op: Operation) -> bool:
    """Whether an operand or a result is quantized."""
    return any(qparams_of(value) is not None for value in (*op.operands, *op.results))


def quantized(x: LaidOut, role: str = "operand") -> QParams:
    """The qparams of `x`; Unlowerable (`float`) if it has none."""
    if x.params is None:
        raise Unlowerable("float", f"its {role} is float", "quantize it (qopt quantize)")
    return x.params


def common_qparams(operands: Sequence[LaidOut], params: QParams | None) -> QParams:
    """`params`; Unlowerable (`qparams`) unless all operands have them."""
    if params is None or any(x.params != params for x in operands):
        raise Unlowerable("qparams", "its operands are not on one scale", "integerize")
    return params


def exact_result(e: BaseEmitter, op: Operation) -> None:
    """Refuse an op that rounds its sums itself, or whose result is on another scale than
    theirs."""
    result = qparams_of(op.results[0])
    if result is None:
        raise Unlowerable("float", "it computes floats", "quantize it (qopt quantize)")
    if result.storage.spelling != "i32" or any(result.zero_point_list()):
        raise _not_split(e, op, "requantizes", "it rounds its result to other integers")
    if not _is_on_its_sums(e, op, result):
        raise _not_split(e, op, "scale", "its sums are on another scale than its result")


def _not_split(e: BaseEmitter, op: Operation, code: str, reason: str) -> Unlowerable:
    """Why the sums of `op` are not rounded behind it: what `split-rescale` finds in the way (an
    overflow, as the ranges of its operands are), if anything."""
    found = split_refusal(e.session, op)
    if found is None:
        return Unlowerable(code, reason, "split-rescale")
    return Unlowerable(found.code, f"{found.code}: {found.reason}")


def _is_on_its_sums(e: BaseEmitter, op: Operation, result: QParams) -> bool:
    behavior = e.session.behaviors.get(op)
    if behavior is None:
        return False
    if (acc := behavior.accumulator) is not None:
        lhs, rhs = (qparams_of(op.operands[n]) for n in (acc.lhs, acc.rhs))
        if lhs is None or rhs is None or not lhs.is_per_tensor:
            return True  # the lowering says what is wrong with these
        expected = accumulator_qparams(op, acc, lhs, rhs)
        return result == expected or set(result.scale_list()) == set(expected.scale_list()) == {
            expected.scale_list()[0]
        }
    params = operand_qparams(op, behavior)
    if behavior.grid is None or isinstance(params, Refusal):
        return True
    step = behavior.grid(op, params)
    return step is not None and set(result.scale_list()) == {float(step)}


def spatial_dimensions(op: Operation, rank: int) -> Sequence[int]:
    """The dimensions behind batch and channels, which a global pool reduces."""
    return range(2, rank)


def reduced_dimensions(op: Operation, rank: int) -> Sequence[int]:
    """The dimensions in the property `axes` of a reduction, counted from the front."""
    assert isinstance(op, NNOp)
    return normalize_axes(op.values["axes"], rank)


def common_order(operands: Sequence[LaidOut], rank: int) -> Order:
    """The order in which most of the data is laid out."""
    sizes: dict[Order, int] = {}
    for x in operands:
        if x.rank == rank and not x.is_constant:
            sizes[x.order] = sizes.get(x.order, 0) + int(np.prod(x.shape))
    return max(sizes, key=lambda o: sizes[o]) if sizes else identity_order(rank)


def clamp_bounds(e: BaseEmitter, op: Operation, x: LaidOut) -> tuple[QParams, tuple[int, int]]:
    """The codes between which `nn.relu` and `nn.clip` keep: their bounds are codes too, or
    never act."""
    params, behavior = x.params, e.session.behaviors.get(op)
    if params is None:
        raise Unlowerable("float", "it computes floats", "quantize it (qopt quantize)")
    assert behavior is not None and behavior.clamp is not None
    pairs = quant_grids(params)
    if len(pairs) > 1:
        raise Unlowerable("axis", "its parameters vary along a dimension")
    (a,) = pairs
    bounds: list[int] = []
    for bound, idle in zip(behavior.clamp(op), (a.low, a.high), strict=True):
        if not np.isfinite(bound):
            bounds.append(idle)
        elif represents(a, bound):
            bounds.append(round(bound / a.scale) + a.zero)
        else:
            code = np.clip(np.round(bound / a.scale) + a.zero, a.low, a.high)
            if code not in (a.low, a.high):
                raise Unlowerable("level", f"no code stands for the bound {bound:g}")
            bounds.append(int(code))
    low, high = (min(max(b, a.low), a.high) for b in bounds)
    return params, (low, high)


def fill_code(x: LaidOut, value: float) -> float:
    """The bits of the code of `value`; of floats, and of plain integers, the number."""
    if x.params is None:
        return value
    pairs = quant_grids(x.params)
    if len(pairs) > 1 or not represents(pairs[0], value):
        raise Unlowerable("value", f"no code stands for the padding {value:g}")
    (a,) = pairs
    code = round(value / a.scale) + a.zero
    width = max(x.params.storage.width, 8)
    return code - (1 << width) if code >= 1 << (width - 1) else code


def check_quotient(
    e: BaseEmitter, op: Operation, sides: tuple[QParams, QParams], result: QParams
) -> None:
    """Refuse a division whose result is not the quotient of codes, rounded half up, with
    room for it in 32 bits."""
    lhs, rhs = sides
    if not (lhs.is_per_tensor and rhs.is_per_tensor and result.is_per_tensor):
        raise Unlowerable("axis", "its parameters vary along a dimension")
    if Fraction(lhs.scale) != Fraction(rhs.scale) * Fraction(result.scale):
        raise Unlowerable(
            "scale", "the quotient of its codes is not its result", "form-tables, by a constant"
        )
    if rounding_of(op) is not Rounding.HALF_UP:
        raise Unlowerable("rounding", f"it rounds {rounding_of(op).value}", "rounding half_up")
    known = ranges(e.session)
    n, d = known.of(op.operands[0]), known.of(op.operands[1])
    if n is None or d is None or d.low <= 0 or 2 * n.largest + d.high > _MAX:
        raise Unlowerable("range", f"it may divide by 0, or leave 32 bits: {n}, {d}")
