"""`tosa.rescale` as `quant.rescale` in the fixed-point form, with the same numbers; casts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir.ops import shape_of
from qdialect.ir.quant import RescaleOp, UniformType
from qdialect.ir.quant.rescale import MAX_SHIFT
from qdialect.plugins.common.raising.errors import Unraisable
from qdialect.plugins.common.raising.raised import Raised
from qdialect.plugins.tosa.raising.facts import Rescaling
from qdialect.plugins.tosa.raising.meanings import width_of
from qdialect.plugins.tosa.raising.raiser import Handler, Raiser

_WIDTHS = (8, 16, 32)


def rescale(r: Raiser, op: Operation, operands: Sequence[Raised]) -> Raised:
    """One pair, or one for each place along the last dimension."""
    return rescaled(r, op, operands[0], op.results[0], Rescaling(op, r.session))


def rescaled(r: Raiser, op: Operation, x: Raised, result: SSAValue, given: Rescaling) -> Raised:
    """The operand `x` of the rescale `op` as `given` says, for `result`."""
    value = op.operands[0]
    if given.rounding is None:
        raise Unraisable("rounding", "it rounds as nothing of ours does")
    if any(width_of(v.type) not in _WIDTHS for v in (value, result)):
        raise Unraisable("storage", "it has integers of 48 bits, or of fewer than 8")
    if any(m < 0 or not 0 <= k <= MAX_SHIFT for m, k in given.pairs):
        raise Unraisable("shift", "a multiplier or shift is out of range")
    target = r.meanings.params(result, given.zeros[1])
    target = with_sign(target, given.unsigned[1])
    source = _source(r, x, op, given, target)
    stored = r.typed(x, source)
    multipliers, shifts = zip(*given.pairs, strict=True)
    kind = TensorType(UniformType(target), list(shape_of(stored)))
    new = RescaleOp(stored, kind, given.rounding, multipliers, shifts)
    return Raised(x.order, r.append(new).results[0])


def with_sign(params: QParams, unsigned: bool) -> QParams:
    """The same codes' bits read with or without a sign."""
    if params.storage.signed != unsigned:
        return params
    return QParams.per_tensor(
        f"{'u' if unsigned else 'i'}{params.storage.width}", params.scale, params.zero_point
    )


def _source(r: Raiser, x: Raised, op: Operation, given: Rescaling, target: QParams) -> QParams:
    """The qparams to read the operand with: along its last dimension where pairs differ."""
    zero, value = given.zeros[0], op.operands[0]
    present = x.params
    if not given.per_channel:
        fits = present is not None and present.zero_point_list() == [zero] * present.count
        if present is not None and fits and present.storage.signed != given.unsigned[0]:
            return present
        return with_sign(r.meanings.params(value, zero), given.unsigned[0])
    axis = x.order[-1]
    if present is not None and present.axis == axis and present.count == len(given.pairs):
        return present
    if zero:
        raise Unraisable("zero-point", "it has a factor for each channel and a zero point")
    scales = [float(ratio) * target.scale or target.scale for ratio in given.ratios]
    width = r.meanings.storage(value).width
    return QParams.per_axis(f"{'u' if given.unsigned[0] else 'i'}{width}", axis, scales)


HANDLERS: Mapping[str, Handler] = {"rescale": rescale}
