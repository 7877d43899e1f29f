"""Write PReLU as a product and a maximum of floats, between casts if it is on codes.

A kernel that branches on the sign of every element is slow; that of ONNX Runtime takes four times
as long as both of these:

    prelu(x, a)  =  maximum(x, a x)      all slopes a <= 1
    prelu(x, a)  =  minimum(x, a x)      all slopes a >= 1

A product rounded to nearest is on the same side of x as the real one, so floats give the same
bits: exact, or `ties` for an op on codes that is defined in the reals.  Codes are finite; of
floats nobody knows, and an infinity times 0 is no number: there all slopes are above 0.  Where
the target says so (`Target.should_lower`), for constant slopes.

For example

    %a = nn.constant dense<0.25> : !a : !a
    %0 = nn.prelu %x, %a : (!x, !a) -> !y

becomes

    %a = nn.constant dense<0.25> : !a : !a
    %1 = quant.dcast %x : !x to !f
    %2 = nn.mul %1, %a : (!f, !a) -> !f
    %3 = nn.maximum %1, %2 : (!f, !f) -> !f
    %0 = quant.qcast %3 : !f to !y
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.ir.ops import MaximumOp, MinimumOp, MulOp, PReluOp
from qdialect.ir.quant import arithmetic_of
from qdialect.passes.casts.in_floats import as_floats, rounded
from qdialect.passes.importing.component_matching import numbers_of
from qdialect.passes.rule_pass import RulePass, dequantized
from qdialect.rewrite import Refusal, Rewriter, Rule

_LARGEST = {"f16": 65504.0, "f32": 3.4e38, "f64": 1.7e308}


class PReluToProduct(Rule[Operation]):
    """prelu(x, a) = maximum(x, a x); see the module."""

    name = "prelu-to-product"
    root = PReluOp.name

    def match(self, op: Operation) -> Operation | None:
        return op

    def check(self, match: Operation) -> Contract | Refusal:
        target, slopes = self.session.target, numbers_of(match.operands[1], self.session)
        if not target.should_lower(match):
            return Refusal("whole", f"{target.name} runs '{match.name}' whole")
        if slopes is None or not slopes.size or ((slopes > 1).any() and not (slopes >= 1).all()):
            return Refusal("slope", "slopes are not constant floats on one side of 1")
        cast, result = dequantized(match.operands[0]), qparams_of(match.results[0])
        source = qparams_of(match.operands[0] if cast is None else cast.input)
        if source is None and result is None and (slopes > 0).all():
            return EXACT
        if source is None or not is_integer(source) or not _is_finite(source):
            return Refusal("finite", "it is not known that all numbers are finite")
        if result is not None and not is_integer(result):
            return Refusal("grid", "the codes of its result are no integers")
        if (result is not None or cast is None) and arithmetic_of(match) is Arithmetic.REAL:
            return Contract(Numerics.TIES, note="floats round before codes do")
        return EXACT

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        slopes = numbers_of(match.operands[1], self.session)
        assert slopes is not None
        x, slope = as_floats(match, rewriter)
        # Slopes of three elements do not tell that an unknown extent is 3.
        scaled = MulOp.create(operands=[x, slope], result_types=[x.type])
        new: list[Operation] = [
            scaled,
            (MaximumOp if (slopes <= 1).all() else MinimumOp)(x, scaled),
        ]
        if qparams_of(match.results[0]) is not None:
            new.append(rounded(new[-1].results[0], match.results[0].type, match))
        rewriter.replace_by(match, new)


def _is_finite(params: QParams) -> bool:
    low, high = params.storage.full_range
    far = max(max(abs(low - z), abs(high - z)) for z in params.zero_point_list())
    return far * max(params.scale_list()) < _LARGEST.get(params.expressed, 0.0)


@dataclass(frozen=True)
class FormPRelu(RulePass):
    """PReLU as a product and a maximum, where a target is faster so; see the module."""

    name = "form-prelu"
    of = (PReluToProduct,)
