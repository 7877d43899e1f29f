"""Round weights again where the sums of their products may leave what the target adds up in.

A kernel with sums in few bits (`i24 saturating`), or that adds products in pairs first (`i32
pairs=i16`: x86 before VNNI), computes what it should as long as no sum leaves those integers. Where
that is not proven for all activations, the scale of the channel grows until it is:

    op(x, q_w on s_w)  ->  op(x, round(q_w s_w / s) on s)        s > s_w, per channel

least for sums; for pairs, largest weights may be clipped instead, whichever is nearer to the
weights. A scale per tensor becomes one per channel where the kernel takes that. The bias is rounded
again on the product of the new scales, and the result keeps its type; sums that are a result have
new scales, and the rescales or casts behind them too. Exact, as it does nothing, where sums fit;
relaxed otherwise, since weights change, by no more steps than stated.

Refused where weights or bias are not constant, where the number of products is not known, and where
hardly a bit of the weights would be left. Weights with several users are rounded for each of them.

For example, where products of u8 and i8 are added in pairs in i16,

    %w = nn.constant dense<[[100, 100, 100], [100, 20, -3]]> : tensor<2x3xi8> : !w
    %0 = nn.fully_connected %x, %w : (!x, !w) -> !y

becomes

    %1 = nn.constant dense<[[64, 64, 64], [100, 20, -3]]> : tensor<2x3xi8> : !fit
    %0 = nn.fully_connected %x, %1 : (!x, !fit) -> !y
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.analysis.accumulators import Products, products_of, risk, signed_shift
from qdialect.analysis.codes import constant_values, qparams_of
from qdialect.ir.context import session
from qdialect.ir.ops import constant_of, make_constant
from qdialect.ir.ops.ports import bias_matches
from qdialect.ir.quant import DCastOp, UniformType
from qdialect.passes.rescale.absorption import derive_bias
from qdialect.passes.rescale.split_rescale import accumulator_qparams
from qdialect.passes.rule_pass import RulePass, refuse_types, rescaled, users, with_qparams
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped
from qdialect.rewrite.remarks import Remark, location_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.algebra.weights import Weights

_ANY_CODE = 1 << 40
"""Codes shrink, so their storage is no bound."""


@dataclass(frozen=True)
class _Operand:
    """A new constant."""

    codes: NDArray[Any]
    params: QParams


@dataclass(frozen=True)
class _Plan:
    """New weights and bias by operand, the type of the result, and what that changes."""

    operands: dict[int, _Operand]
    result: Attribute
    steps: float
    note: str


@dataclass(frozen=True)
class Unproven:
    """A contraction whose sums may not fit, and what is done about it."""

    products: Products
    plan: _Plan | Refusal


class FitSums(Rule[Unproven]):
    """op(x, q on s_w) -> op(x, q' on s), with sums that fit; see the module."""

    name = "fit-sums"

    def roots(self) -> Iterable[str]:
        kernels = self.session.target.kernels
        names = self.session.behaviors.names_with(lambda b: b.accumulator is not None)
        return tuple(name for name in names if name in kernels)

    def match(self, op: Operation) -> Unproven | None:
        found = products_of(self.session, op)
        if found is None or found.fits:
            return None
        return Unproven(found, self._plan(found))

    def check(self, match: Unproven) -> Contract | Refusal:
        plan = match.plan
        if isinstance(plan, Refusal):
            return plan
        return Contract(Numerics.RELAXED, plan.steps, plan.note)

    def rewrite(self, match: Unproven, rewriter: Rewriter) -> None:
        op, plan = match.products.op, match.plan
        assert isinstance(plan, _Plan)
        operands = list(op.operands)
        for index, made in plan.operands.items():
            new = make_constant(made.codes, UniformType(made.params), self.session.blobs)
            rewriter.insert(new, op, keep=constant_of(operands[index]))
            operands[index] = new.result
        new = retyped(op, operands, [plan.result])
        rewriter.insert(new, op, keep=op)
        rewriter.replace(op, new.results)

    def _plan(self, found: Products) -> _Plan | Refusal:
        if found.reason:
            return Refusal("unknown", found.reason)
        if found.rows is None:
            return Refusal("runtime", f"{found}, and weights are not constant")
        rhs = qparams_of(found.op.operands[found.acc.rhs])
        assert rhs is not None
        refusal: _Plan | Refusal | None = None
        if not rhs.is_per_tensor or self._has_channels(found):
            refusal = self._on(found, rhs, per_row=True)
        if rhs.is_per_tensor and not isinstance(refusal, _Plan):
            return self._on(found, rhs, per_row=False)
        assert refusal is not None
        return refusal

    def _has_channels(self, found: Products) -> bool:
        allowed = found.behavior.operand_port(found.acc.rhs).axes
        return allowed is None or found.acc.rhs_axis(found.op) in allowed(found.op)

    def _on(self, found: Products, rhs: QParams, *, per_row: bool) -> _Plan | Refusal:
        import numpy as np

        from qdialect.algebra.weights import Choice, Overflow, fit_scales

        op, acc, rows, sums = found.op, found.acc, found.rows, found.sums
        assert rows is not None and sums is not None
        scales = rhs.scale_array().reshape(-1)
        reals = rows * scales[:, None]
        starts = np.resize(scales, len(rows)) if per_row else scales
        to_round = replace(sums, on_products=False)
        choice = Choice(rhs.storage, rhs.expressed, True, per_row, self._allowed(found, rhs))
        try:
            made = fit_scales(reals, starts, to_round, choice, _ANY_CODE, signed_shift(rhs))
        except Overflow as error:
            return Refusal("overflow", str(error))
        weights = self._weights(found, rhs, made, per_row=per_row)
        lhs = qparams_of(op.operands[acc.lhs])
        assert lhs is not None
        operands, off = {acc.rhs: weights}, 0.0
        if acc.bias is not None and acc.bias < len(op.operands):
            value = op.operands[acc.bias]
            params, codes = qparams_of(value), constant_values(value, self.session)
            if params is not None and bias_matches(lhs, rhs, params, acc.repeats(op)):
                assert codes is not None
                bias = derive_bias(codes, params, lhs, weights.params)
                if isinstance(bias, Refusal):
                    return bias
                operands[acc.bias] = _Operand(bias.codes, bias.params)
                off = float(bias.error)
        result = self._result(found, lhs, rhs, weights.params)
        if isinstance(result, Refusal):
            return result
        kinds = list(op.operand_types)
        for index, operand in operands.items():
            kinds[index] = with_qparams(op.operands[index], operand.params)
        refusal = refuse_types(self.session, found.behavior, op, kinds, [result])
        if refusal is not None:
            return refusal
        before = qparams_of(op.results[0])
        assert before is not None
        change = np.abs(made.codes * np.asarray(made.scales)[:, None] - reals).sum(axis=1).max()
        reach = max(-sums.span.down, sums.span.up) * sums.step
        steps = (float(change) * reach + off) / min(before.scale_list()) + 1
        note = f"{found}: scales of weights up to {made.factor:.3g} times as large, "
        note += f"results off by at most {steps:.3g} steps"
        return _Plan(operands, result, steps, note)

    def _allowed(self, found: Products, rhs: QParams) -> Sequence[Any]:
        """The scales that the kernel takes for such weights."""
        domains = self.session.target.port_domains(found.op.name, found.acc.rhs)
        inside = next((d for d in domains if d.refuses(rhs) is None), None)
        return () if inside is None else inside.scales

    def _weights(self, found: Products, rhs: QParams, made: Weights, *, per_row: bool) -> _Operand:
        """The codes in the shape of the old ones, and their qparams."""
        import numpy as np

        op, acc, scales = found.op, found.acc, list(made.scales)
        old = constant_values(op.operands[acc.rhs], self.session)
        assert old is not None
        axis, zeros = acc.rhs_axis(op), rhs.zero_point_list()
        codes = made.codes + rhs.zero_point_array().reshape(-1, 1)
        if self._has_channels(found):
            shape = np.moveaxis(old, axis, 0).shape
            codes = np.moveaxis(codes.reshape(shape), 0, axis)
        codes = np.ascontiguousarray(codes.reshape(old.shape)).astype(old.dtype)
        if not per_row:
            return _Operand(codes, _with_scale(rhs, scales[0]))
        zeros = zeros * (len(scales) // len(zeros))
        params = QParams.per_axis(rhs.storage, axis, scales, zeros, rhs.expressed)
        return _Operand(codes, params)

    def _result(
        self, found: Products, lhs: QParams, rhs: QParams, new: QParams
    ) -> Attribute | Refusal:
        """The type of the result: as it was, unless it is the sums themselves."""
        op, acc = found.op, found.acc
        (value,) = op.results
        if qparams_of(value) != accumulator_qparams(op, acc, lhs, rhs):
            return value.type
        kind = with_qparams(value, accumulator_qparams(op, acc, lhs, new))
        for user in users(value):
            result = user.results[0] if user.results else None
            if not isinstance(user, DCastOp) and (result is None or rescaled(result) is None):
                return Refusal("users", f"'{user.name}' takes the sums on their old scales")
            reason = self.session.target.refuses(user, [kind], list(user.result_types))
            if reason:
                return Refusal("target", f"{self.session.target.name}: {reason}")
        return kind


def _with_scale(params: QParams, scale: float) -> QParams:
    return QParams.per_tensor(params.storage, scale, params.zero_point, params.expressed)


@dataclass(frozen=True)
class FitSumsPass(RulePass):
    """Weights whose sums fit what the target adds up in; see the module."""

    name = "fit-sums"
    of = (FitSums,)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass, and say what may still leave its sums."""
        super().apply(ctx, op)
        qctx = session(ctx)
        left = risk(op, qctx)
        if left:
            at = location_text(op.location), op.name, ""
            qctx.remarks.add(Remark("note", self.name, "fit-sums", *at, code="sums", reason=left))
