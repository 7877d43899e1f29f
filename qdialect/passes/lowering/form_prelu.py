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
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.numerics.arithmetic import Arithmetic
from qdialect.numerics.contract import EXACT, Contract, Numerics
from qdialect.ops import MaximumOp, MinimumOp, MulOp, PReluOp
from qdialect.passes.folding.constant_evaluation import dequantize
from qdialect.passes.rule_pass import RulePass, dequantized
from qdialect.qparams import QParams
from qdialect.quant import (
    ROUNDING_KEY,
    DCastOp,
    QCastOp,
    arithmetic_of,
    expressed_type,
    with_element,
)
from qdialect.rewrite import Refusal, Rewriter, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HALF_EVEN = "half_even"
_LARGEST = {"f16": 65504.0, "f32": 3.4e38, "f64": 1.7e308}


@dataclass(frozen=True)
class _Sloped:
    """A PReLU, the op that takes x and its product, and whether all slopes are above 0."""

    op: PReluOp
    kind: type[MaximumOp | MinimumOp] | None
    positive: bool = False


class PReluToProduct(Rule[_Sloped]):
    """prelu(x, a) = maximum(x, a x); see the module."""

    name = "prelu-to-product"
    root = PReluOp.name

    def match(self, op: Operation) -> _Sloped | None:
        assert isinstance(op, PReluOp)
        slopes = self._slopes(op.operands[1])
        if slopes is None or not slopes.size:
            return _Sloped(op, None)
        positive = bool((slopes > 0).all())
        if (slopes <= 1).all():
            return _Sloped(op, MaximumOp, positive)
        return _Sloped(op, MinimumOp if (slopes >= 1).all() else None, positive)

    def _slopes(self, value: SSAValue) -> NDArray[Any] | None:
        """The numbers that a constant holds, or its codes mean."""
        array, params = constant_values(value, self.session), qparams_of(value)
        if array is None or params is None:
            return array if array is not None and array.dtype.kind == "f" else None
        floats = dequantize(array, value)
        return None if isinstance(floats, Refusal) else floats

    def check(self, match: _Sloped) -> Contract | Refusal:
        op, target = match.op, self.session.target
        if not target.should_lower(op):
            return Refusal("whole", f"{target.name} runs '{op.name}' whole")
        if match.kind is None:
            return Refusal("slope", "slopes are not constant floats on one side of 1")
        cast = dequantized(op.operands[0])
        source = qparams_of(op.operands[0] if cast is None else cast.input)
        if source is None and match.positive and qparams_of(op.results[0]) is None:
            return EXACT
        if source is None or not is_integer(source) or not _is_finite(source):
            return Refusal("finite", "it is not known that all numbers are finite")
        result = qparams_of(op.results[0])
        if result is not None and not is_integer(result):
            return Refusal("grid", "the codes of its result are no integers")
        on_codes = result is not None or cast is None
        if on_codes and arithmetic_of(op) is Arithmetic.REAL:
            return Contract(Numerics.TIES, note="floats round before codes do")
        return EXACT

    def rewrite(self, match: _Sloped, rewriter: Rewriter) -> None:
        op, kind = match.op, match.kind
        assert kind is not None
        new: list[Operation] = []
        x, slopes = (_as_floats(value, new) for value in op.operands)
        # Slopes of three elements do not tell that an unknown extent is 3.
        new.append(MulOp.create(operands=[x, slopes], result_types=[x.type]))
        new.append(kind(x, new[-1].results[0]))
        if qparams_of(op.results[0]) is not None:
            new.append(QCastOp(new[-1].results[0], op.results[0].type))
            if op.values["rounding"] != _HALF_EVEN:
                new[-1].attributes[ROUNDING_KEY] = StringAttr(op.values["rounding"])
        rewriter.replace_by(op, new)


def _as_floats(value: SSAValue, new: list[Operation]) -> SSAValue:
    """A value, or its codes dequantized by an op that is added to `new`."""
    params = qparams_of(value)
    if params is None:
        return value
    new.append(DCastOp(value, with_element(value.type, expressed_type(params))))
    return new[-1].results[0]


def _is_finite(params: QParams) -> bool:
    """Whether all codes mean numbers of the expressed type."""
    low, high = params.storage.full_range
    far = max(max(abs(low - z), abs(high - z)) for z in params.zero_point_list())
    return far * max(params.scale_list()) < _LARGEST.get(params.expressed, 0.0)


@dataclass(frozen=True)
class FormPRelu(RulePass):
    """PReLU as a product and a maximum, where a target is faster so; see the module."""

    name = "form-prelu"
    of = (PReluToProduct,)
