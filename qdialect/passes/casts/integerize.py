"""Turn dequantize -> op -> quantize into the quantized op.

A quantized op means: dequantize its operands exactly, apply the op in real
arithmetic, quantize the result.  That is what DQ -> op -> Q spells out, so the
rewrite is exact (docs/design/001-architecture.md).  Four rules work together:

    quantize(op(dequantize(a), ...))   ->  op(a, ...)                 op requantizes
    quantize(f(x))                     ->  f(quantize(x))             f moves elements
                                           or preserves order: Q is monotone and
                                           elementwise, so it commutes with f
    f(dequantize(a))                   ->  dequantize(f(a))           inside a closed
                                           region only

    f(dequantize(a))                   ->  f(a)               f computes from order
                                           only (compare, argmax): its plain results
                                           need no quantize

and quantize(dequantize(a)) becomes nothing or a rescale.  Only float regions closed by
a quantize, or by an op that computes from order only, are touched: no op at a float
interface changes.

For example

    %0 = quant.dcast %x : !a to !f
    %1 = quant.dcast %y : !b to !f
    %2 = nn.add %0, %1 : (!f, !f) -> !f
    %3 = quant.qcast %2 : !f to !a

becomes

    %3 = nn.add %x, %y : (!a, !b) -> !a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.contract import Contract
from qdialect.algebra.requantize import quant_grids, represents
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.cast_regions import CastRegions
from qdialect.analysis.codes import qparams_of, rounding_of
from qdialect.analysis.ranges import narrowed_qparams
from qdialect.ir.behaviors import PortKind
from qdialect.ir.behaviors.flow import carry_all_down, tied_operands
from qdialect.ir.context import QContext
from qdialect.ir.ops import ConstantOp
from qdialect.ir.ops.component_qparams import component_types, result_roles
from qdialect.ir.ops.constants import constant_array, constant_of
from qdialect.ir.ops.ports import bias_matches
from qdialect.ir.quant import DCastOp, QCastOp, arithmetic_of, cast_rounding, with_element
from qdialect.passes.casts.cast_movement import HoistQuantize, Policy, Quantized, SinkDequantize
from qdialect.passes.casts.cast_rules import QuantizeOfConstant, QuantizeOfDequantize
from qdialect.passes.casts.order_rules import OrderOfDequantize
from qdialect.passes.constant_scalars import exact_copy
from qdialect.passes.pair_contract import replaced_kernel, target_rounding
from qdialect.passes.rule_pass import RulePass, dequantized, only_quantized_alike, refuse_types
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped


class _ClosedRegions(Policy):
    """Casts move only inside float regions that a quantize closes: no op at a float
    interface changes."""

    def __init__(self, session: QContext) -> None:
        self._session = session
        self._regions: CastRegions | None = None

    def prepare(self, module: Operation) -> None:
        if self._regions is None:
            self._regions = CastRegions(module, self._session.behaviors)

    @property
    def regions(self) -> CastRegions:
        assert self._regions is not None
        return self._regions

    def hoist_quantize(self, op: Operation) -> Refusal | None:
        if op.results[0] in self.regions.lands:
            return None
        return Refusal("open-region", "the float values above are not dequantized codes")

    def sink_dequantize(self, op: Operation) -> Refusal | None:
        if self.regions.is_closed(op):
            return None
        return Refusal("open-region", "the float result is not quantized again")


@dataclass(frozen=True)
class _Computed(Quantized):
    """A quantize and the computing op above; `codes` are what that takes as a quantized
    op, once `check` has found them."""

    codes: list[SSAValue] = field(default_factory=list[SSAValue])


def _new_constant(value: SSAValue) -> ConstantOp | None:
    constant = constant_of(value)
    return constant if constant is not None and constant.parent is None else None


class IntegerizeOp(Rule[_Computed]):
    """quantize(op(dequantize(a), ...)) = op(a, ...), by the meaning of a quantized op.

    An integer kernel with a float result (MatMulIntegerToFloat) rounds that before the quantize
    does; the kernel that gives codes rounds once. Each of several results is quantized; one that
    nothing uses takes the type that component qparams have for it."""

    name = "integerize-op"
    root = QCastOp.name

    def match(self, op: Operation) -> _Computed | None:
        assert isinstance(op, QCastOp)
        owner = op.input.owner
        if not isinstance(owner, Operation):
            return None
        behavior = self.session.behaviors.get(owner)
        if behavior is None or behavior.commutes or qparams_of(op.result) is None:
            return None
        if any(port.kind is PortKind.PLAIN for port in behavior.results):
            return None
        return _Computed(op, owner, behavior)

    def _types(self, match: _Computed) -> list[Attribute] | Refusal:
        """The types of the results in codes."""
        types: list[Attribute] = []
        roles = result_roles(match.op, self.session.components.get(match.op.name))
        for number, result in enumerate(match.op.results):
            casts = only_quantized_alike(result)
            if casts is not None:
                if cast_rounding(casts[0]) is not cast_rounding(match.cast):
                    return Refusal("rounding", "the results are rounded in different ways")
                types.append(casts[0].result.type)
                continue
            element = component_types(match.op).get(roles[number]) if number < len(roles) else None
            if result.first_use is not None or element is None:
                return Refusal("multi-use", "the float result is also used elsewhere")
            types.append(with_element(result.type, element))
        return types

    def check(self, match: _Computed) -> Contract | Refusal:
        types = self._types(match)
        if isinstance(types, Refusal):
            return types
        result = qparams_of(match.cast.result)
        assert result is not None
        rounding, contract = target_rounding(
            self.session.target,
            cast_rounding(match.cast),
            lambda: None,
            result,
            arithmetic_of(match.op),
        )
        if isinstance(contract, Refusal):
            return contract
        if "rounding" not in match.op.properties and rounding is not Rounding.HALF_EVEN:
            return Refusal("rounding", f"'{match.op.name}' cannot round {rounding.value}")
        refusal = self._refuse(match, types)
        if refusal is not None and any(map(_new_constant, match.codes)):
            # A kernel may take numbers that are alike as unsigned codes only.
            refusal = refusal if self._refuse(match, types, signed=False) else None
        return refusal or replaced_kernel(match.op, contract)

    def _refuse(
        self, match: _Computed, types: Sequence[Attribute], *, signed: bool = True
    ) -> Refusal | None:
        """Why the op is not one on codes, which become those of the match; of scalar constants,
        signed ones or not."""
        match.codes.clear()
        for index, operand in enumerate(match.op.operands):
            codes = self._codes(match, index, operand, signed)
            if isinstance(codes, Refusal):
                return codes
            match.codes.append(codes)
            if index in match.behavior.nonzero and self._may_be_zero(codes):
                role = match.behavior.operand_port(index).role
                return Refusal("undefined", f"the {role} may be 0")
        if match.behavior.is_tied and not self._keeps_qparams(match, match.codes):
            return Refusal("tied", f"'{match.op.name}' gives the qparams it takes, not others")
        operands = [value.type for value in match.codes]
        return refuse_types(self.session, match.behavior, match.op, operands, types)

    def _keeps_qparams(self, match: _Computed, operands: Sequence[SSAValue]) -> bool:
        tied = [operands[i] for i in tied_operands(match.op, match.behavior)]
        params = [q for v in tied if (q := qparams_of(v)) is not None]
        results = [qparams_of(match.cast.result)]
        return carry_all_down(match.op, match.behavior, params, results) == results

    def _may_be_zero(self, codes: SSAValue) -> bool:
        params, constant = narrowed_qparams(codes, self.session), constant_of(codes)
        if params is None:
            return True
        if constant is None or not params.is_per_tensor:
            return any(represents(a, 0.0) for a in quant_grids(params))
        return bool((constant_array(constant, self.session.blobs) == params.zero_point).any())

    def _codes(
        self, match: _Computed, index: int, operand: SSAValue, signed: bool
    ) -> SSAValue | Refusal:
        """What the quantized op takes in place of a float operand; a scalar constant
        becomes a new quantized constant that is exactly the same number."""
        port = match.behavior.operand_port(index)
        if port.kind is PortKind.PLAIN or qparams_of(operand) is not None:
            return operand
        cast = dequantized(operand)
        if port.kind is PortKind.BIAS:
            return cast.input if cast and self._is_bias(match, cast) else operand
        if cast is not None and qparams_of(cast.input) is not None:
            return cast.input
        if port.kind is PortKind.TIED:
            return Refusal("float-operand", f"the {port.role} is not dequantized")
        scalar = exact_copy(operand, self.session, signed=signed)
        if scalar is None:
            return Refusal("float-operand", f"the {port.role} is not dequantized")
        return scalar.result

    def _is_bias(self, match: _Computed, bias: DCastOp) -> bool:
        acc = match.behavior.accumulator
        if acc is None:
            return False
        sides = [dequantized(match.op.operands[n]) for n in (acc.lhs, acc.rhs)]
        params = [qparams_of(side.input) if side else None for side in (*sides, bias)]
        lhs, rhs, bias_params = params
        if lhs is None or rhs is None or bias_params is None:
            return False
        return bias_matches(lhs, rhs, bias_params, acc.repeats(match.op))

    def rewrite(self, match: _Computed, rewriter: Rewriter) -> None:
        types = self._types(match)
        assert not isinstance(types, Refusal)
        for codes, operand in zip(match.codes, match.op.operands, strict=True):
            if (constant := _new_constant(codes)) is not None:
                rewriter.insert(constant, match.op, keep=constant_of(operand))
        new = retyped(match.op, match.codes, types)
        rounding = self.session.target.rounding(cast_rounding(match.cast))
        if "rounding" in new.properties and rounding_of(new) is not rounding:
            new.properties["rounding"] = StringAttr(rounding.value)
        rewriter.insert(new, match.op, keep=match.op)
        pairs = [
            (cast, codes)
            for result, codes in zip(match.op.results, new.results, strict=True)
            for cast in only_quantized_alike(result) or ()
        ]
        rewriter.check_replaced((cast.result, codes) for cast, codes in pairs)
        for cast, codes in pairs:
            rewriter.replace(cast, [codes])


@dataclass(frozen=True)
class Integerize(RulePass):
    """dequantize -> op -> quantize becomes the quantized op; see the module."""

    name = "integerize"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        policy = _ClosedRegions(session)
        return (
            SinkDequantize(session, policy),
            QuantizeOfDequantize(session),
            QuantizeOfConstant(session),
            IntegerizeOp(session),
            OrderOfDequantize(session, policy),
            HoistQuantize(session, policy),
        )
