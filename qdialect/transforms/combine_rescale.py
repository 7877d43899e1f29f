"""Absorb rescales into the requantizing ops next to them.

    up     rescale_{b->c}(op_b(x, ...))        ->  op_c(x, ...)
    down   op(rescale_{a->b}(x), ...)          ->  op(x, ...)

A requantizing op takes qparams as they come, so what changes is one rounding (and
perhaps a clip) less:

    up     exact if b and c have equal scales and c clips at least where b does;
           bounded(s_b / (2 s_c) + 1) if b clips nothing that c does not
    down   exact if the rescale is lossless; else bounded(g * s_b / (2 s_out) + 1)
           with g the op's gain (largest output change per unit of input change)

and a weaker class when a clip disappears. A bias whose scale is the product of
input and weight scales is re-derived.

For example

    %0 = nn.add %x, %y : (!a, !a) -> !a
    %1 = quant.rescale %0 : !a to !u

becomes

    %1 = nn.add %x, %y : (!a, !a) -> !u
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from qdialect.analysis.codes import qparams_of, seen_qparams
from qdialect.behaviors import Behavior
from qdialect.behaviors import Rule as PortRule
from qdialect.context import QContext
from qdialect.dialects.nn import constant_array, constant_of, make_constant
from qdialect.dialects.nn.ports import bias_matches
from qdialect.dialects.quant import RescaleOp, UniformType
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import Contract, Numerics
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped
from qdialect.transforms.pair_contract import NO_GEMMLOWP, pair_contract, renumbers
from qdialect.transforms.rule_pass import RulePass, refuse_types, rescaled, rounding_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class _Up:
    rescale: RescaleOp
    op: Operation
    behavior: Behavior


class CombineUp(Rule[_Up]):
    """rescale_{b->c}(op_b(x)) = op_c(x), one rounding less; see the module."""

    name = "combine-up"

    def roots(self) -> Iterable[str]:
        return (RescaleOp.name,)

    def match(self, op: Operation) -> _Up | None:
        assert isinstance(op, RescaleOp)
        owner = op.input.owner
        if op.fixed_point is not None or not isinstance(owner, Operation):
            return None
        behavior = self.session.behaviors.get(owner)
        if behavior is None or len(owner.results) != 1:
            return None
        return _Up(op, owner, behavior) if behavior.results[0].rule is PortRule.REQUANT else None

    def check(self, match: _Up) -> Contract | Refusal:
        if not match.op.results[0].has_one_use():
            return Refusal("multi-use", "the result is also used as it is")
        refusal = refuse_types(
            self.session,
            match.behavior,
            match.op,
            [v.type for v in match.op.operands],
            [match.rescale.result.type],
        )
        if refusal:
            return refusal
        if self._rounding(match) is not rounding_of(match.op) and (
            "rounding" not in match.op.properties
        ):
            return Refusal("rounding", f"'{match.op.name}' has no declared rounding")
        return pair_contract(
            None,
            match.rescale.input_qparams,
            match.rescale.result_qparams,
            rounding_of(match.op),
            match.rescale.rounding,
        )

    def _rounding(self, match: _Up) -> Rounding:
        """How the new op rounds: as the rescale, unless that never rounds."""
        same_scale = renumbers(match.rescale.input_qparams, match.rescale.result_qparams)
        return rounding_of(match.op) if same_scale else match.rescale.rounding

    def rewrite(self, match: _Up, rewriter: Rewriter) -> None:
        new = retyped(match.op, match.op.operands, [match.rescale.result.type])
        if "rounding" in new.properties:
            new.properties["rounding"] = StringAttr(self._rounding(match).value)
        rewriter.insert(new, match.op, keep=match.op)
        rewriter.replace(match.rescale, new.results)


@dataclass(frozen=True)
class _Down:
    op: Operation
    behavior: Behavior
    index: int
    rescale: RescaleOp


class CombineDown(Rule[_Down]):
    """op(rescale_{a->b}(x)) = op(x), one rounding less; see the module.

    Each use is taken by itself: other users of the rescale keep it.
    """

    name = "combine-down"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(
            lambda b: any(port.rule is PortRule.REQUANT for port in b.operands)
        )

    def match(self, op: Operation) -> _Down | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None
        found: list[_Down] = []
        for index, operand in enumerate(op.operands):
            rescale = rescaled(operand)
            if rescale and behavior.operand_port(index).rule is PortRule.REQUANT:
                found.append(_Down(op, behavior, index, rescale))
        return min(found, key=self._weakness) if len(found) > 1 else next(iter(found), None)

    def _weakness(self, match: _Down) -> int:
        verdict = self.check(match)
        return verdict.level if isinstance(verdict, Contract) else len(Numerics)

    def check(self, match: _Down) -> Contract | Refusal:
        operands = list(match.op.operands)
        operands[match.index] = match.rescale.input
        refusal = refuse_types(
            self.session,
            match.behavior,
            match.op,
            [v.type for v in operands],
            [v.type for v in match.op.results],
        )
        if refusal:
            return refusal
        if match.rescale.rounding is Rounding.GEMMLOWP:
            return NO_GEMMLOWP
        a = seen_qparams(match.rescale.input, self.session.behaviors)
        cells = exact.cells(a or match.rescale.input_qparams, match.rescale.result_qparams)
        if cells is None:
            return Refusal("grid", "the two encodings lie on different grids")
        bias = self._new_bias(match)
        if isinstance(bias, Refusal):
            return bias
        bias_error = bias.error if bias else Fraction(0)
        if all(exact.is_lossless(src, mid) for src, mid in cells) and not bias_error:
            return Contract(Numerics.EXACT, note="the rescale loses nothing")
        gain = self._gain(match)
        out = qparams_of(match.op.results[0])
        if gain is None or out is None:
            return Refusal("unbounded", "no bound on what a change of this operand does")
        step = min(out.scale_list())
        change = gain * max(mid.scale for _, mid in cells) / 2 + float(bias_error)
        steps = change / step + 1
        if not all(exact.covers(mid, src) for src, mid in cells):
            low, high = exact.real_range(cells[0][1])
            note = f"the rescale clips to [{float(low):g}, {float(high):g}]"
            return Contract(Numerics.SATURATION, steps, note)
        return Contract(Numerics.BOUNDED, steps, "drops the rescale's rounding")

    def _gain(self, match: _Down) -> float | None:
        """Largest output change, in real units, per unit of change of the operand."""
        if match.behavior.gain is not None:
            return match.behavior.gain(match.op, match.index)
        acc = match.behavior.accumulator
        if acc is None or match.index != acc.lhs:
            return None
        weight = constant_of(match.op.operands[acc.rhs])
        params = qparams_of(match.op.operands[acc.rhs])
        if weight is None or params is None:
            return None
        real = np_abs_real(constant_array(weight, self.session.blobs), params)
        axis, allowed = acc.rhs_axis(match.op), match.behavior.operand_port(acc.rhs).axes
        # A vector on the right has no output dimension of its own: all of it is summed.
        kept = {axis} if allowed is None or axis in allowed(match.op) else set[int]()
        other = tuple(d for d in range(real.ndim) if d not in kept)
        return float(real.sum(axis=other).max(initial=0.0))

    def _new_bias(self, match: _Down) -> _Bias | Refusal | None:
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
        sides[0 if match.index == acc.lhs else 1] = match.rescale.input_qparams
        lhs, rhs = sides
        if lhs is None or rhs is None or not lhs.is_per_tensor:
            return Refusal("bias", "no scale to derive the bias from")
        if bias_matches(lhs, rhs, params):
            return None  # as when only the zero point changes
        return derive_bias(constant_array(constant, self.session.blobs), params, lhs, rhs)

    def rewrite(self, match: _Down, rewriter: Rewriter) -> None:
        operands = list(match.op.operands)
        operands[match.index] = match.rescale.input
        bias = self._new_bias(match)
        if isinstance(bias, _Bias):
            acc = match.behavior.accumulator
            assert acc is not None and acc.bias is not None
            old = constant_of(operands[acc.bias])
            assert old is not None
            new_bias = make_constant(bias.codes, UniformType(bias.params), self.session.blobs)
            rewriter.insert(new_bias, match.op, keep=old)
            operands[acc.bias] = new_bias.result
        new = retyped(match.op, operands, [v.type for v in match.op.results])
        rewriter.insert(new, match.op, keep=match.op)
        rewriter.replace(match.op, new.results)


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
    result = np.empty(codes.shape, np.int64)
    error = Fraction(0)
    for index in np.ndindex(codes.shape):
        channel = int(index[0])
        source = Fraction(old[channel % len(old)])
        target = Fraction(scales[channel % len(scales)])
        value = int(codes[index]) * source
        code = exact.round_fraction(value / target, Rounding.HALF_EVEN)
        if abs(code) > 2**31 - 1:
            return Refusal("bias", "the re-derived bias does not fit 32 bits")
        result[index] = code
        error = max(error, abs(value - code * target))
    if count == 1:
        derived = QParams.per_tensor(params.storage, scales[0], 0, params.expressed)
    else:
        vector = [scales[c % len(scales)] for c in range(codes.shape[0])]
        derived = QParams.per_axis(params.storage, 0, vector, None, params.expressed)
    return _Bias(result.astype(np.int32), derived, error)


def np_abs_real(codes: NDArray[Any], params: QParams) -> NDArray[np.float64]:
    """|real value| of each code, in float64."""
    import numpy as np

    from qdialect.numerics.quantize import spread

    zero = spread(params.zero_point_array(), params, codes.shape)
    scale = spread(params.scale_array(), params, codes.shape)
    return np.abs((codes.astype(np.float64) - zero) * scale)


@dataclass(frozen=True)
class CombineRescale(RulePass):
    """Absorb rescales into requantizing ops; see the module."""

    name = "combine-rescale"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (CombineUp(session), CombineDown(session))
