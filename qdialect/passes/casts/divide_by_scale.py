"""Divide by scales where a model multiplies by their rounded reciprocals.

PyTorch quantizes with a product, ONNX and its kernels with a quotient:

    round(x * fl(1 / s))        `reciprocal`
    round(x / s)                half even

Four roundings of u = 2**-p, of the scale, the reciprocal, the product and the quotient, put the
two at most 4 u |x / s| apart, so that they give different codes only within that of a half, and
by one step if it is less than one: `ties`. Storage of so many bits that it is more is bounded. Of
powers of two the reciprocals are exact, quantized ops of a module in the reals divide anyway, and
two tables of a rescale may be equal: exact.

For example

    %0 = quant.qcast %x {nn.key = "k", quant.rounding = "reciprocal"} : !x to !y

becomes

    %0 = quant.qcast %x {nn.key = "k"} : !x to !y
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, frexp

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from qdialect.algebra import arithmetic
from qdialect.algebra import requantize as exact
from qdialect.algebra.arithmetic import Arithmetic
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.float_path import COMPUTED_IN
from qdialect.algebra.float_text import FORMATS
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.ir.quant import ROUNDING_KEY, QCastOp, RescaleOp, arithmetic_of, cast_rounding
from qdialect.passes.rule_pass import RulePass
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

_NOTE = "divides, where the model multiplies by a rounded reciprocal"


def multiplies(op: Operation) -> bool:
    """Whether `op` quantizes by the reciprocal of a scale."""
    if isinstance(op, QCastOp):
        return cast_rounding(op) is Rounding.RECIPROCAL
    declared = op.properties.get("rounding")
    return isinstance(declared, StringAttr) and declared.data == Rounding.RECIPROCAL.value


class ReciprocalToQuotient(Rule[Operation]):
    """reciprocal -> half even; see the module."""

    name = "reciprocal-to-quotient"

    def roots(self) -> Iterable[str]:
        return (QCastOp.name, RescaleOp.name, *self.session.behaviors.names())

    def match(self, op: Operation) -> Operation | None:
        return op if multiplies(op) else None

    def check(self, match: Operation) -> Contract | Refusal:
        worst = EXACT
        for result in match.results:
            params = qparams_of(result)
            if params is not None:
                found = _contract(match, params)
                worst = max(worst, found, key=lambda c: (c.level, c.steps))
        return worst

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        new = retyped(match, match.operands, [result.type for result in match.results])
        if isinstance(match, QCastOp):
            del new.attributes[ROUNDING_KEY]
        elif isinstance(match, RescaleOp):
            del new.properties["rounding"]
        else:
            new.properties["rounding"] = StringAttr(Rounding.HALF_EVEN.value)
        rewriter.insert(new, match, keep=match)
        rewriter.replace(match, new.results)


class ExactReciprocal(ReciprocalToQuotient):
    """The same where it is exact."""

    name = "exact-reciprocal"

    def match(self, op: Operation) -> Operation | None:
        found = super().match(op)
        if found is None:
            return None
        contract = super().check(found)
        return found if isinstance(contract, Contract) and not contract.level else None


def _contract(op: Operation, params: QParams) -> Contract:
    """What dividing by the scales of one result changes."""
    if not isinstance(op, QCastOp) and arithmetic_of(op) is Arithmetic.REAL:
        return Contract(Numerics.EXACT, note="real numbers are divided")
    if _is_power_of_two(params):
        return Contract(Numerics.EXACT, note="reciprocals of powers of two")
    if isinstance(op, RescaleOp) and _has_equal_tables(op):
        return Contract(Numerics.EXACT, note="equal on all codes")
    ends = [(a.low - a.zero, a.high - a.zero) for a in exact.quant_grids(params)]
    furthest = max(abs(end) for pair in ends for end in pair) + 1
    unit = 2.0 ** -FORMATS["f64" if params.expressed == "f64" else "f32"].precision
    apart = floor(4 * unit * furthest) + 1
    return Contract(Numerics.TIES if apart == 1 else Numerics.BOUNDED, apart, _NOTE)


def _is_power_of_two(params: QParams) -> bool:
    kind = np.finfo(COMPUTED_IN.get(params.expressed, "float32"))
    scales = params.scale_list()
    return all(
        frexp(scale)[0] == 0.5 and kind.tiny <= scale <= 1 / float(kind.tiny) for scale in scales
    )


def _has_equal_tables(op: RescaleOp) -> bool:
    """Whether both give each code of the storage the same."""
    source, result = op.input_qparams, op.result_qparams
    low, high = source.storage.full_range
    floats = arithmetic_of(op).floats(source.expressed)
    pairs = exact.unique_pairs(source, result) if exact.tabulated(source) else None
    if pairs is None:
        return False
    whole = [(a._replace(low=low, high=high), b) for a, b in pairs]
    return all(
        np.array_equal(
            arithmetic.table(a, b, Rounding.RECIPROCAL, floats),
            arithmetic.table(a, b, Rounding.HALF_EVEN, floats),
        )
        for a, b in whole
    )


@dataclass(frozen=True)
class DivideByScale(RulePass):
    """Divide by scales where a model multiplies by their rounded reciprocals; see the module."""

    name = "divide-by-scale"
    of = (ReciprocalToQuotient,)
