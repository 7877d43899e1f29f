"""Softmax of codes in integers: lookups, a sum, one division.

    softmax(x) = exp(x - max x) / sum(exp(x - max x))

The difference of codes is at most 0 and fits 16 bits where codes are that close together, so
its exponential is a table, of 32-bit integers. With e = round(2**k exp), at least 1, and
n = round(2**k exp / s') for a result of scale s',

    softmax(x) / s'  ~  n / sum(e)

which is rounded once, half up. Entries are off by at most 1, so the quotient is off by at most
(1/2 + N / s') * 2**-k steps (N elements are summed, sum(e) >= 2**k); k is what 32 bits leave
room for, 20 or more up to N = 1000. So the result is one step off at most, where it was nearly
a tie: `bounded(1)`.

Refused for codes further apart, and where k would be less than 8.

For example

    %0 = nn.softmax %x : (!a) -> !b

becomes

    %1 = nn.reduce_max %x axes [1] : (!a) -> !max
    %2 = nn.sub %x, %1 : (!a, !max) -> !difference
    %3 = nn.table %2, %exp : (!difference, !exps) -> !terms
    %4 = nn.table %2, %scaled : (!difference, !scaleds) -> !numerators
    %5 = nn.reduce_sum %3 axes [1] : (!terms) -> !sum
    %0 = nn.div %4, %5 rounding half_up : (!numerators, !sum) -> !b
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.qparams import QParams
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import is_integer, qparams_of
from qdialect.analysis.ranges import ranges
from qdialect.ir.behaviors.shapes import DYNAMIC, shape_of
from qdialect.ir.ops import (
    DivOp,
    ReduceMaxOp,
    ReduceSumOp,
    SoftmaxOp,
    SubOp,
    TableOp,
    make_constant,
)
from qdialect.ir.ops.base import NNOp, ranked
from qdialect.ir.quant import UniformType
from qdialect.passes.rule_pass import RulePass, refuse_scales
from qdialect.rewrite import Refusal, Rewriter, Rule

_LEAST, _MOST = 8, 24
_ROOM = 2**31 - 2
_SPAN = 2**15 - 1


@dataclass(frozen=True)
class _Softmax:
    op: SoftmaxOp
    source: QParams
    result: QParams
    axis: int
    extent: int
    #: how far apart codes may be
    span: int


class SoftmaxByTables(Rule[_Softmax]):
    """softmax(x) = n[x - max] / sum(e[x - max]); see the module."""

    name = "softmax-by-tables"
    root = SoftmaxOp.name

    def match(self, op: Operation) -> _Softmax | None:
        assert isinstance(op, SoftmaxOp)
        source, result = qparams_of(op.operands[0]), qparams_of(op.results[0])
        if source is None or result is None:
            return None
        shape = shape_of(op.operands[0])
        axis = int(op.values["axis"]) % len(shape)
        codes = ranges(self.session).of(op.operands[0])
        span = _SPAN + 1 if codes is None else int(codes.high - codes.low)
        return _Softmax(op, source, result, axis, shape[axis], span)

    def check(self, match: _Softmax) -> Contract | Refusal:
        for params, role in ((match.source, "input"), (match.result, "result")):
            if not is_integer(params):
                return Refusal("storage", f"the {role} is stored as {params.storage}")
            if not params.is_per_tensor:
                return Refusal("per-axis", f"the {role} has qparams along an axis")
        if match.span > _SPAN:
            return Refusal("storage", "differences that 16 bits do not hold")
        if match.extent == DYNAMIC:
            return Refusal("overflow", "the number of elements summed is not known")
        bits = _bits(match)
        if bits < _LEAST:
            return Refusal("overflow", "32 bits leave too few digits to the exponentials")
        finest = self._kinds(match)[-1].qparams
        refusal = refuse_scales(finest)
        if refusal is not None:
            return refusal
        off = (0.5 + match.extent / match.result.scale) * 2.0**-bits
        steps = 1 if off < 0.5 else int(off) + 2
        return Contract(Numerics.BOUNDED, steps, f"quotients are off by up to {off:.2g} steps")

    def _kinds(self, match: _Softmax) -> list[UniformType]:
        """Of the differences, of the exponentials and of the numerators."""
        expressed, unit = match.source.expressed, 2.0 ** -_bits(match)
        return [
            _element("i16", match.source.scale, expressed),
            _element("i32", unit, expressed),
            _element("i32", match.result.scale * unit, expressed),
        ]

    def rewrite(self, match: _Softmax, rewriter: Rewriter) -> None:
        op, bits = match.op, _bits(match)
        x, kinds = op.operands[0], self._kinds(match)

        def put(new: NNOp) -> SSAValue:
            rewriter.insert(new, op, keep=op)
            return new.results[0]

        def table(scale: float, kind: Attribute) -> SSAValue:
            store = self.session.blobs
            entries = make_constant(_entries(match.source.scale, scale), kind, store)
            rewriter.insert(entries, op)
            return entries.result

        highest = put(ReduceMaxOp(x, axes=(match.axis,), keepdims=True))
        shape = shape_of(x)
        # Nothing is rounded: as the target does it.
        rounding = self.session.target.rounding(Rounding.HALF_EVEN).value
        steps = [ranked(kinds[0], shape)]
        difference = put(SubOp(x, highest, result_types=steps, rounding=rounding))
        terms = put(TableOp(difference, table(2.0**bits, kinds[1]), element=kinds[1]))
        scale = 2.0**bits / match.result.scale
        numerators = put(TableOp(difference, table(scale, kinds[2]), element=kinds[2]))
        total = put(ReduceSumOp(terms, axes=(match.axis,), keepdims=True))
        quotient = DivOp(numerators, total, result_types=[op.results[0].type], rounding="half_up")
        rewriter.replace_by(op, [quotient])


def _element(storage: str, scale: float, expressed: str) -> UniformType:
    return UniformType(QParams.per_tensor(storage, scale, 0, expressed))


def _bits(match: _Softmax) -> int:
    """The largest k with 2 n + sum(e) in 31 bits, whatever the elements are."""
    room = _ROOM / (2 / match.result.scale + match.extent + 4)
    bits = int(np.floor(np.log2(room))) if room >= 1 else 0
    return min(bits, _MOST)


def _entries(step: float, scale: float) -> np.ndarray[Any, np.dtype[np.int32]]:
    """round(scale * exp(d * step)) for every 16-bit d, at least 1; of d > 0, which never
    occur, that of 0."""
    d = np.minimum(np.arange(-(1 << 15), 1 << 15), 0)
    return np.maximum(np.rint(np.exp(d * step) * scale), 1).astype(np.int32)


@dataclass(frozen=True)
class FormSoftmaxTables(RulePass):
    """Softmax of codes by lookups and one division; see the module."""

    name = "form-softmax-tables"
    of = (SoftmaxByTables,)
