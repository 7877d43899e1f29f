"""Requantizing ports that absorb a rescale: the contract of that, and the rewrite.

    up     a result on b that is then rescaled to c is made on c at once
    down   an operand on b, rescaled from a, is read on a

Dropping the rescale drops one rounding, and perhaps a clip; `combine_rescale` has the
algebra.  Contracts are found before any op is made: `combine-rescale` needs them for
rescales that stand there, placement for rescales that may move there.

    %0 = nn.add %x, %y : (!a, !a) -> !b
    %1 = quant.rescale %0 : !b to !c          up: nn.add %x, %y : (!a, !a) -> !c
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra import arithmetic
from qdialect.algebra import requantize as exact
from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import constant_values, qparams_of, rounding_of
from qdialect.analysis.gain import gain_of
from qdialect.analysis.ranges import ranges
from qdialect.ir.behaviors import Behavior
from qdialect.ir.context import QContext
from qdialect.ir.ops import constant_array, constant_of, make_constant
from qdialect.ir.ops.ports import bias_matches
from qdialect.ir.quant import UniformType, arithmetic_of
from qdialect.passes.pair_contract import NO_TWO_STAGE, pair_contract, renumbers, replaced_kernel
from qdialect.passes.rescale.split_rescale import operand_qparams
from qdialect.passes.rule_pass import refuse_both_bytes, refuse_scales, refuse_types, with_qparams
from qdialect.rewrite import Refusal, Rewriter, retyped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Up:
    """The result of `op`, of qparams `source`, rescaled to `target`."""

    op: Operation
    behavior: Behavior
    source: QParams
    target: QParams
    rounding: Rounding

    @property
    def new_rounding(self) -> Rounding:
        """How the new op rounds: as the rescale, unless that never rounds."""
        same_scale = renumbers(self.source, self.target)
        return rounding_of(self.op) if same_scale else self.rounding


EXACT_READING = Contract(Numerics.EXACT, note="the rescale loses nothing")


def up_contract(session: QContext, match: Up) -> Contract | Refusal:
    """What writing the result as `target` at once may change."""
    op = match.op
    operands = [v.type for v in op.operands]
    results = [with_qparams(op.results[0], match.target)]
    refusal = refuse_types(session, match.behavior, op, operands, results)
    refusal = refusal or _refuse_mixed(session, match, operands, results)
    if refusal:
        return refusal
    if match.new_rounding is not rounding_of(op) and "rounding" not in op.properties:
        return Refusal("rounding", f"'{op.name}' has no declared rounding")
    found = pair_contract(
        None,
        match.source,
        match.target,
        rounding_of(op),
        match.rounding,
        lambda: ranges(session).before_rounding(op.results[0]),
        defined=arithmetic_of(op),
    )
    if (
        isinstance(found, Contract)
        and found.level is Numerics.BOUNDED
        and arithmetic_of(op).floats(match.source.expressed) is None
        and rounds_once(session, op, match.behavior, match.source, match.target)
    ):
        # Nothing is clipped in the middle, or the level would be another.
        found = Contract(Numerics.EXACT, note="the sums are not rounded")
    return found if isinstance(found, Refusal) else replaced_kernel(op, found)


def absorb_up(match: Up, rewriter: Rewriter) -> Operation:
    """The op with its result written as `target`, inserted before the old one."""
    op = match.op
    new = retyped(op, op.operands, [with_qparams(op.results[0], match.target)])
    if "rounding" in new.properties:
        new.properties["rounding"] = StringAttr(match.new_rounding.value)
    rewriter.insert(new, op, keep=op)
    return new


@dataclass(frozen=True)
class Down:
    """Operand `index` of `op`, of qparams `middle`, rescaled from `source`; `narrowed`
    is `source` with the bounds of the known range of its codes."""

    op: Operation
    behavior: Behavior
    index: int
    source: QParams
    narrowed: QParams
    middle: QParams
    rounding: Rounding

    @property
    def operand_types(self) -> list[Attribute]:
        """The operand types without the rescale."""
        kinds = [v.type for v in self.op.operands]
        kinds[self.index] = with_qparams(self.op.operands[self.index], self.source)
        return kinds


def down_contract(session: QContext, match: Down) -> Contract | Refusal:
    """What reading the operand as `source` may change."""
    operands, results = match.operand_types, [v.type for v in match.op.results]
    refusal = refuse_types(session, match.behavior, match.op, operands, results)
    refusal = refusal or _refuse_mixed(session, match, operands, results)
    if refusal:
        return refusal
    if match.rounding.two_stage:
        return NO_TWO_STAGE
    pairs = exact.unique_pairs(match.narrowed, match.middle)
    if pairs is None:
        return Refusal("grid", "the two encodings lie on different grids")
    bias = _new_bias(session, match)
    if isinstance(bias, Refusal):
        return bias
    bias_error = bias.error if bias else Fraction(0)
    floats = arithmetic_of(match.op).floats(match.middle.expressed)
    if not bias_error and all(arithmetic.is_lossless(src, mid, floats) for src, mid in pairs):
        return replaced_kernel(match.op, EXACT_READING)
    gain = gain_of(session, match.op, match.behavior, match.index, (match.narrowed, match.middle))
    out = qparams_of(match.op.results[0])
    if gain is None or out is None:
        return Refusal("unbounded", "no bound on what a change of this operand does")
    step = min(out.scale_list())
    change = gain * max(mid.scale for _, mid in pairs) / 2 + float(bias_error)
    steps = change / step + 1
    if not all(exact.covers(mid, src) for src, mid in pairs):
        low, high = exact.real_range(pairs[0][1])
        note = f"the rescale clips to [{float(low):g}, {float(high):g}]"
        return Contract(Numerics.SATURATION, steps, note)
    return Contract(Numerics.BOUNDED, steps, "drops the rescale's rounding")


def _refuse_mixed(
    session: QContext, match: Up | Down, operands: Sequence[Attribute], results: Sequence[Attribute]
) -> Refusal | None:
    """`refuse_both_bytes`, weights aside."""
    op, acc = match.op, match.behavior.accumulator
    weight = acc.rhs if acc else None

    def types(operands: Sequence[Attribute], results: Sequence[Attribute]) -> list[Attribute]:
        return [*(kind for index, kind in enumerate(operands) if index != weight), *results]

    before = types([v.type for v in op.operands], [v.type for v in op.results])
    return refuse_both_bytes(session, types(operands, results), before)


def absorb_down(session: QContext, match: Down, value: SSAValue, rewriter: Rewriter) -> Operation:
    """The op reading `value`, of qparams `source`, inserted before the old one; its bias
    is re-derived."""
    operands = list(match.op.operands)
    operands[match.index] = value
    bias = _new_bias(session, match)
    if isinstance(bias, _Bias):
        acc = match.behavior.accumulator
        assert acc is not None and acc.bias is not None
        old = constant_of(operands[acc.bias])
        assert old is not None
        new_bias = make_constant(bias.codes, UniformType(bias.params), session.blobs)
        rewriter.insert(new_bias, match.op, keep=old)
        operands[acc.bias] = new_bias.result
    new = retyped(match.op, operands, [v.type for v in match.op.results])
    rewriter.insert(new, match.op, keep=match.op)
    return new


def _new_bias(session: QContext, match: Down) -> _Bias | Refusal | None:
    """The re-derived bias, or None if the op has no quantized bias on this input."""
    acc = match.behavior.accumulator
    if acc is None or match.index not in (acc.lhs, acc.rhs) or acc.bias is None:
        return None
    if acc.bias >= len(match.op.operands):
        return None
    value = match.op.operands[acc.bias]
    params = qparams_of(value)
    if params is None:
        return None
    constant = constant_of(value)
    if constant is None:
        return Refusal("bias", "the bias is not a constant, so it cannot be re-derived")
    sides = [qparams_of(match.op.operands[n]) for n in (acc.lhs, acc.rhs)]
    sides[0 if match.index == acc.lhs else 1] = match.source
    lhs, rhs = sides
    if lhs is None or rhs is None or not lhs.is_per_tensor:
        return Refusal("bias", "no scale to derive the bias from")
    if bias_matches(lhs, rhs, params, acc.repeats(match.op)):
        return None  # as when only the zero point changes
    return derive_bias(constant_array(constant, session.blobs), params, lhs, rhs)


@dataclass(frozen=True)
class _Bias:
    codes: NDArray[np.int32]
    params: QParams
    error: Fraction


def derive_bias(
    codes: NDArray[Any], params: QParams, lhs: QParams, rhs: QParams
) -> _Bias | Refusal:
    """A bias on the accumulator scale of new operands: s = s_lhs * s_rhs, zero point 0.

    `error` is the largest change in real units.  Refused when a code leaves i32.
    """
    import numpy as np

    scales: list[float] = [lhs.scale * s for s in rhs.scale_list()]
    old = params.scale_list()
    count = max(len(scales), len(old))
    every: list[int] = []
    # In integers, as fractions of them would be slow: a double is one over a power of two.
    error, whole = 0, 1
    numbers: list[int] = codes.reshape(-1).tolist()
    each = len(numbers) // max(int(codes.shape[0]), 1)
    for position, number in enumerate(numbers):
        channel = position // each
        n, d = old[channel % len(old)].as_integer_ratio()
        over, under = scales[channel % len(scales)].as_integer_ratio()
        value, step = number * n * under, d * over
        code = exact.round_quotient(value, step, Rounding.HALF_EVEN)
        if abs(code) > 2**31 - 1:
            return Refusal("bias", "the re-derived bias does not fit 32 bits")
        every.append(code)
        off = abs(value - code * step)
        if off * whole > error * d * under:
            error, whole = off, d * under
    result = np.array(every, np.int32).reshape(codes.shape)
    if count == 1:
        derived = QParams.per_tensor(params.storage, scales[0], 0, params.expressed)
    else:
        vector = [scales[c % len(scales)] for c in range(codes.shape[0])]
        derived = QParams.per_axis(params.storage, 0, vector, None, params.expressed)
    return refuse_scales(derived) or _Bias(result, derived, Fraction(error, whole))


# Whether an op that computes integers on its own step, and the rescale behind them, round once.
#
# A convolution into i32 on the product of its scales rounds nothing, so the rescale is the only
# rounding, as it is in the op that gives the rescaled result at once. But the product of two scales
# is rounded to a double in the type of the sums, so the two may decide otherwise next to where the
# result steps from one code to the next:
#
#     t = (n - 1/2) * s_out / s_sums        from n-1 to n, in sums
#
# They are the same if each t is further from a whole number than the two scales are apart there.

_APART = 2.0**-50
"""Bound of the relative error of a product of scales, and of a threshold in doubles."""
_CLOSE = Fraction(1, 1 << 50)
_MOST = 1 << 22


def rounds_once(
    session: QContext, op: Operation, behavior: Behavior, sums: QParams, target: QParams
) -> bool:
    """Whether `op` gives whole numbers on the scales of `sums`, its result, and rescaling them
    to `target` is as rounding once, provided that no sum leaves 32 bits."""
    if sums.storage.spelling != "i32" or any(sums.zero_point_list()) or not target.is_per_tensor:
        return False
    steps = _steps(op, behavior, sums)
    if steps is None:
        return False
    scales = sums.scale_list()
    if any(abs(Fraction(s) - step) > step * _CLOSE for s, step in zip(scales, steps, strict=True)):
        return False
    if all(Fraction(s) == step for s, step in zip(scales, steps, strict=True)):
        return True
    low, high = (bound - target.zero_point for bound in (target.storage.min, target.storage.max))
    if (high - low) * len(scales) > _MOST:
        return False
    halves = np.arange(low + 1, high + 1) - 0.5
    thresholds = halves * target.scale / np.array(scales)[:, None]
    away = np.abs(thresholds - np.rint(thresholds))
    return bool((away > (np.abs(thresholds) + _largest_bias(session, op, behavior)) * _APART).all())


def _steps(op: Operation, behavior: Behavior, sums: QParams) -> Sequence[Fraction] | None:
    """The step of the result for each scale of `sums`, exactly."""
    acc = behavior.accumulator
    if acc is not None:
        lhs, rhs = (qparams_of(op.operands[n]) for n in (acc.lhs, acc.rhs))
        if lhs is None or rhs is None or not lhs.is_per_tensor:
            return None
        steps = [Fraction(lhs.scale) * Fraction(scale) for scale in rhs.scale_list()]
        if len(steps) > 1:
            steps *= acc.repeats(op)
        if len(set(steps)) == 1:
            steps = steps[:1] * sums.count
        return steps if len(steps) == sums.count else None
    params = operand_qparams(op, behavior)
    if behavior.grid is None or isinstance(params, Refusal):
        return None
    step = behavior.grid(op, params)
    if step is None and behavior.grid(op, [params[0]] * len(params)) is not None:
        # A sum of terms that are whole numbers of the result's steps.
        whole = all((Fraction(q.scale) / Fraction(sums.scale)).denominator == 1 for q in params)
        step = Fraction(sums.scale) if sums.is_per_tensor and whole else None
    return None if step is None else [step] * sums.count


def _largest_bias(session: QContext, op: Operation, behavior: Behavior) -> float:
    acc = behavior.accumulator
    if acc is None or acc.bias is None or acc.bias >= len(op.operands):
        return 0.0
    values = constant_values(op.operands[acc.bias], session)
    return 2.0**31 if values is None else float(np.abs(values.astype(np.float64)).max(initial=0))
