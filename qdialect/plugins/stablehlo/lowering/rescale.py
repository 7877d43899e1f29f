"""Where StableHLO rounds: to even, after the zero point was added.

    quantize(x) = roundeven(clamp(x / scale + zero point))

`nn` rounds first. Both are the same but at ties, and there if the zero point is even. Where
there is a tie and the zero point is odd, numbers are rounded onto zero point 0, which is the
same for both, and then moved, which rounds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams, Storage
from qdialect.algebra.requantize import QuantGrid, quant_grids, unique_pairs
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.quant import CastOp, QCastOp, RescaleOp, cast_rounding
from qdialect.plugins.common.lowering.emitter import element_named
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.common.lowering.laid_out import LaidOut, Order
from qdialect.plugins.common.lowering.preconditions import quantized
from qdialect.plugins.stablehlo.lowering.emitter import Emitter, supported_qparams

_ROOM = replace(Storage.of("i32"), min=-(1 << 23), max=(1 << 23) - 1)
"""Storage that f32 has all integers of, to saturate in."""


def result_of(op: Operation) -> QParams:
    """The parameters of the result."""
    params = qparams_of(op.results[0])
    if params is None:
        raise Unlowerable("float", "it computes floats", "quantize it (qopt quantize)")
    return params


def ties(pairs: Sequence[tuple[QuantGrid, QuantGrid]]) -> bool:
    """Whether a code lies between two of the result: n p/q = k + 1/2, which p odd, q even
    and n a multiple of q/2 make."""
    for a, b in pairs:
        furthest = max(abs(a.low - a.zero), abs(a.high - a.zero))
        step = (Fraction(a.scale) / Fraction(b.scale)).denominator
        if step % 2 == 0 and step // 2 <= furthest:
            return True
    return False


def rounded(
    e: Emitter,
    result: QParams,
    rounding: Rounding | None,
    order: Order,
    write: Callable[[Attribute], SSAValue],
) -> SSAValue:
    """What `write` gives for an element type, which rounds as `nn` does; `rounding` is None
    where nothing is between two codes."""
    element = e.element(result, order)
    if rounding is None:
        return write(element)
    _refuse_others(rounding, "convert-rescale{form=real rounding=half_even}")
    if not any(z % 2 for z in result.zero_point_list()):
        return write(element)
    return moved(e, write(e.element(centered(result, _ROOM), order)), element)


def _refuse_others(rounding: Rounding, remedy: str = "") -> None:
    """Unlowerable unless quotients are rounded to even."""
    if rounding is Rounding.RECIPROCAL:
        raise Unlowerable(
            "rounding",
            "it multiplies by a reciprocal, and StableHLO divides",
            "divide-by-scale{numerics=ties}",
        )
    if rounding is not Rounding.HALF_EVEN:
        reason = f"it rounds {rounding.value}, and StableHLO to even"
        raise Unlowerable("rounding", reason, remedy)


def centered(params: QParams, storage: Storage | str) -> QParams:
    """The same scales on another storage, around 0."""
    if params.axis is None:
        return QParams.per_tensor(storage, params.scale, 0)
    return QParams.per_axis(storage, params.axis, params.scale_list())


def moved(e: Emitter, value: SSAValue, element: Attribute) -> SSAValue:
    """The same numbers with another element type."""
    return e.op("uniform_quantize", [value], shape_of(value), element)


def widened(e: Emitter, value: SSAValue, params: QParams, order: Order) -> SSAValue:
    """Codes less their zero point, in 32 bits: nothing is rounded."""
    wide = centered(params, "i32")
    return value if wide == params else moved(e, value, e.element(wide, order))


def rescale(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.rescale` by a real number."""
    assert isinstance(op, RescaleOp)
    (x,), source, result = operands, op.input_qparams, op.result_qparams
    if op.fixed_point is not None:
        raise Unlowerable(
            "fixed-form",
            "StableHLO has scales and no multipliers and shifts",
            "convert-rescale{form=real rounding=half_even}",
        )
    supported_qparams(source)
    supported_qparams(result)
    met = unique_pairs(source, result)
    if met is None:
        raise Unlowerable("grid", "its parameters vary along more than one dimension")
    rounding = op.rounding if ties(met) else None
    out = rounded(
        e, result, rounding, x.order, lambda element: moved(e, e.value_of(x, x.order), element)
    )
    return e.result(out, x.order, result, x.shape)


def quantize(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.qcast`."""
    assert isinstance(op, QCastOp)
    (x,), result = operands, result_of(op)
    _float32(x)
    value = quantized_floats(e, e.value_of(x, x.order), x.order, result, cast_rounding(op))
    return e.result(value, x.order, result, x.shape)


def quantized_floats(
    e: Emitter, value: SSAValue, order: Order, result: QParams, rounding: Rounding
) -> SSAValue:
    """The codes of floats: around 0 first, as adding a zero point to a float rounds too."""
    _refuse_others(rounding)
    element = e.element(result, order)
    if not any(result.zero_point_list()):
        return moved(e, value, element)
    room = "i16" if result.storage.width == 8 else _ROOM
    around = moved(e, value, e.element(centered(result, room), order))
    return moved(e, around, element)


def _float32(x: LaidOut) -> None:
    if x.value is not None and not str(x.value.type).endswith("f32>"):
        raise Unlowerable("expressed", f"it quantizes {x.value.type} and not f32")


def dequantize(e: Emitter, op: Operation, operands: Sequence[LaidOut]) -> LaidOut:
    """`quant.dcast`."""
    assert isinstance(op, CastOp)
    (x,) = operands
    supported_qparams(quantized(x))
    import numpy as np

    number = element_named(np.dtype(np.float32))
    value = e.op("uniform_dequantize", [e.value_of(x, x.order)], x.extents, number)
    return e.result(value, x.order, None, x.shape)


def pair_rounding(
    op: Operation, lhs: QParams, rhs: QParams, result: QParams, product: bool
) -> Rounding | None:
    """How a sum or product of two codes is rounded; None where none is between two codes."""
    if pair_may_tie(lhs, rhs, result, product):
        return rounding_of(op)
    return None


def pair_may_tie(lhs: QParams, rhs: QParams, result: QParams, product: bool) -> bool:
    """Whether the sum (or product) of two codes may lie between two of the result; all per
    tensor."""
    import numpy as np

    (a,), (b,), (c,) = quant_grids(lhs), quant_grids(rhs), quant_grids(result)
    reach = [max(abs(s.low - s.zero), abs(s.high - s.zero)) for s in (a, b)]
    if product:
        step = (Fraction(a.scale) * Fraction(b.scale) / Fraction(c.scale)).denominator
        return step % 2 == 0 and step // 2 <= reach[0] * reach[1]
    if max(reach) > 1 << 9:
        return True
    # Floats tell all that are not near a tie; what is near one counts as one.
    left, right = (
        np.arange(s.low - s.zero, s.high - s.zero + 1) * (s.scale / c.scale) for s in (a, b)
    )
    sums = (left[:, None] + right[None, :]) % 1.0
    return bool((np.abs(sums - 0.5) < 1e-9 * (1 + np.abs(left).max() + np.abs(right).max())).any())
