"""Remove what does nothing.

    relu, clip on codes that the storage bounds already clamp   -> operand
    relu(relu), clip(clip), clip(relu), relu(clip)              -> one clamp
    maximum(x, c), minimum(x, c) with one number c everywhere   -> clip(x), or x
    movements in a row, or alike above elementwise ops (`movements`)
    a pad that the window of a convolution or pool can read as its own (`pads`)
    scast(scast(x)) back to the same type                       -> x
    a reciprocal rounded as a quotient is (`divide_by_scale`)   -> a quotient
    a pure op whose results are unused                          -> nothing

All exact (the clip where x is finite). Never dequantize(quantize(x)): that pair rounds and clips.

For example

    %0 = nn.relu %x : (!positive) -> !positive
    func.return %0 : !positive

becomes

    func.return %x : !positive
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.arithmetic import Arithmetic, quantized
from qdialect.algebra.contract import EXACT, Contract, Numerics
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.requantize import clamps_nothing, quant_grids
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import constant_values, is_integer, qparams_of
from qdialect.analysis.not_a_number import NotANumber
from qdialect.analysis.ranges import ranges
from qdialect.errors import InputError, UsageError, did_you_mean
from qdialect.ir.behaviors.declaration import Bounds
from qdialect.ir.context import QContext, session
from qdialect.ir.ops import ClipOp
from qdialect.ir.ops.base import real
from qdialect.ir.quant import SCastOp, arithmetic_of
from qdialect.passes.casts.cast_rules import Pair
from qdialect.passes.casts.divide_by_scale import ExactReciprocal
from qdialect.passes.cleanup.dce import Dce
from qdialect.passes.cleanup.movements import (
    ComposeFlip,
    ComposeReshape,
    ComposeTranspose,
    IdentityMovement,
    SinkMovements,
)
from qdialect.passes.cleanup.pads import PadIntoWindow
from qdialect.passes.constant_scalars import scalar_of
from qdialect.passes.rule_pass import RulePass
from qdialect.rewrite import Refusal, Rewriter, Rule, retyped

if TYPE_CHECKING:
    from qdialect.rewrite.pattern import RulePattern


@dataclass(frozen=True)
class _Clamped:
    """`op` clamps `x` to `bounds`."""

    op: Operation
    x: SSAValue
    bounds: Bounds


@dataclass(frozen=True)
class _Repeated(Pair):
    """Two clamps; together they clamp to `bounds`."""

    bounds: tuple[float, float]


class RedundantClamp(Rule[Operation]):
    """max(q, lo) = q when no code that occurs names less than lo, and so for an upper
    bound.

    For relu, lo is real 0, the zero point's code.
    """

    name = "redundant-clamp"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.clamp is not None)

    def match(self, op: Operation) -> Operation | None:
        behavior, params = self.session.behaviors.get(op), qparams_of(op.operands[0])
        if params is None or behavior is None or behavior.clamp is None:
            return None
        if op.operands[0].type != op.results[0].type or not is_integer(params):
            return None
        low, high = behavior.clamp(op)
        idle = all(clamps_nothing(a, low, high) for a in quant_grids(params))
        return op if idle or self._proved(op) else None

    def check(self, match: Operation) -> Contract | Refusal:
        if self._proved(match):
            return EXACT
        return Refusal("bounds", "codes may lie outside the narrowed bounds")

    def _proved(self, op: Operation) -> bool:
        """Whether no code that occurs is clamped."""
        behavior, codes = self.session.behaviors.get(op), ranges(self.session).of(op.operands[0])
        params = qparams_of(op.operands[0])
        assert behavior is not None and behavior.clamp is not None and params is not None
        if codes is None:
            return False
        low, high = behavior.clamp(op)
        floats = arithmetic_of(op).floats(params.expressed)
        for a in quant_grids(params):
            if low != -inf and codes.low < quantized(low, a, Rounding.HALF_EVEN, floats):
                return False
            if high != inf and codes.high > quantized(high, a, Rounding.HALF_EVEN, floats):
                return False
        return True

    def rewrite(self, match: Operation, rewriter: Rewriter) -> None:
        rewriter.replace(match, [match.operands[0]])


class RepeatedClamp(Rule[_Repeated]):
    """clamp_outer(clamp_inner(x)) is the inner one when its bounds lie within the others,
    the outer one of x when those lie within, and where they cross one `nn.clip` to what
    both let through.  Quantized bounds are monotone in the real ones: so too on codes."""

    name = "repeated-clamp"

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.clamp is not None)

    def match(self, op: Operation) -> _Repeated | None:
        owner = op.operands[0].owner
        if not isinstance(owner, Operation):
            return None
        outer, inner = (self.session.behaviors.get(each) for each in (op, owner))
        if inner is None or inner.clamp is None or owner.operands[0].type != op.results[0].type:
            return None
        assert outer is not None and outer.clamp is not None
        if op.operands[0].type != op.results[0].type:
            return None
        (low, high), (inner_low, inner_high) = outer.clamp(op), inner.clamp(owner)
        if not (low <= high and inner_low <= inner_high):
            return None
        shared = max(low, inner_low), min(high, inner_high)
        if shared == (inner_low, inner_high) or shared == (low, high):
            return _Repeated(op, owner, shared)
        crossing = shared[0] < shared[1] and ClipOp.name in (op.name, owner.name)
        return _Repeated(op, owner, shared) if crossing else None

    def check(self, match: _Repeated) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: _Repeated, rewriter: Rewriter) -> None:
        outer, inner = match.lower, match.upper
        low, high = match.bounds
        behaviors = [self.session.behaviors.get(each) for each in (outer, inner)]
        bounds = [
            behavior.clamp(each)
            for behavior, each in zip(behaviors, (outer, inner), strict=True)
            if behavior is not None and behavior.clamp is not None
        ]
        if bounds[1] == match.bounds:
            rewriter.replace(outer, [inner.results[0]])
            return
        if bounds[0] == match.bounds:
            new = retyped(outer, [match.source], [match.result.type])
        else:
            bounded = [("min", low), ("max", high)]
            new = ClipOp.create(
                operands=[match.source],
                result_types=[match.result.type],
                properties={name: real(bound) for name, bound in bounded if isfinite(bound)},
                attributes=outer.attributes,
            )
        rewriter.replace_by(outer, [new])


class ClampByConstant(Rule[_Clamped]):
    """max(x, c) = clip(x, min = c) for a constant that is one number everywhere, and x for an
    infinite one that is below all; which zero max(-0, 0) is, is left open.  A clip that lacks a
    bound clips infinities to the largest number in ONNX Runtime, so in a module of floats it is
    exact where x is finite."""

    name = "clamp-by-constant"

    def prepare(self, module: Operation) -> None:
        """Prepare the analysis of what may be infinite."""
        super().prepare(module)
        self._finite = NotANumber(self.session, finite=True)

    def roots(self) -> Iterable[str]:
        return self.session.behaviors.names_with(lambda b: b.as_clamp is not None)

    def match(self, op: Operation) -> _Clamped | None:
        behavior = self.session.behaviors.get(op)
        assert behavior is not None and behavior.as_clamp is not None
        constants = [self._number(v) for v in op.operands]
        data = [v for v, c in zip(op.operands, constants, strict=True) if c is None]
        if len(data) != 1 or data[0].type != op.results[0].type:
            return None  # folded, or the constant broadcasts x
        bounds = behavior.as_clamp(op, constants)
        if bounds is None or inf in bounds[:1] or -inf in bounds[1:]:
            return None
        low, high = (None if bound in (inf, -inf) else bound for bound in bounds)
        return _Clamped(op, data[0], (low, high))

    def _number(self, value: SSAValue) -> Any:
        """The one number of a constant, perhaps infinite; None for other values."""
        found = scalar_of(value, self.session)
        array = constant_values(value, self.session) if found is None else None
        if array is None or array.dtype.kind != "f" or not np.isinf(array).all():
            return found
        ends = set(array.ravel().tolist())
        return ends.pop() if len(ends) == 1 else None

    def check(self, match: _Clamped) -> Contract | Refusal:
        if match.bounds == (None, None):
            return EXACT
        if any(b is not None and Fraction(float(b)) != b for b in match.bounds):
            return Refusal("bound", "the constant is no number of 64 bits")
        params = qparams_of(match.x)
        if params is not None and not is_integer(params):
            return Refusal("storage", f"no clamp of codes stored as {params.storage}")
        in_floats = params is None and arithmetic_of(match.op) is not Arithmetic.REAL
        if in_floats and None in match.bounds and self._finite.may_be(match.x):
            return Contract(Numerics.TIES, note="an infinity becomes the largest number")
        return EXACT

    def rewrite(self, match: _Clamped, rewriter: Rewriter) -> None:
        if match.bounds == (None, None):
            rewriter.replace(match.op, [match.x])
            return
        named = zip(("min", "max"), match.bounds, strict=True)
        new = ClipOp.create(
            operands=[match.x],
            result_types=[match.op.results[0].type],
            properties={name: real(float(bound)) for name, bound in named if bound is not None},
            attributes=match.op.attributes,
        )
        rewriter.replace_by(match.op, [new])


class StorageCastPair(Rule[Pair]):
    """scast(scast(x)) = x when it comes back to the same type: no bit changes."""

    name = "storage-cast-pair"
    root = SCastOp.name

    def match(self, op: Operation) -> Pair | None:
        owner = op.operands[0].owner
        if not isinstance(owner, SCastOp) or owner.input.type != op.results[0].type:
            return None
        return Pair(op, owner)

    def check(self, match: Pair) -> Contract | Refusal:
        return EXACT

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        rewriter.replace(match.lower, [match.source])


@dataclass(frozen=True)
class Canonicalize(RulePass):
    """Remove what does nothing; see the module. All its rules but one are exact.

    The options from `top_down` on are those of upstream's pass. What they ask for and this pass
    does not do is a ValueError.
    """

    name = "canonicalize"

    top_down: bool = True
    region_simplify: Literal["disabled", "normal", "aggressive"] = "normal"
    max_iterations: int = 10
    max_num_rewrites: int = -1
    test_convergence: bool = False
    disable_patterns: tuple[str, ...] = ()
    enable_patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.top_down:
            raise ValueError("ops are visited top down: 'top-down=false' is not supported")
        if self.region_simplify == "aggressive":
            raise ValueError("no blocks are merged: 'region-simplify=aggressive' is not supported")
        if self.max_iterations not in (10, -1):
            raise ValueError(
                "what changes is visited again until nothing fires, without iterations: "
                "'max-iterations' is not supported, 'max-num-rewrites' is"
            )
        if self.max_num_rewrites < -1:
            raise ValueError("'max-num-rewrites' is a count, or -1 for any")
        object.__setattr__(self, "idempotent", self.max_num_rewrites < 0)

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        everything = self._all_rules(session)
        names = [rule.name for rule in everything]
        for name in (*self.disable_patterns, *self.enable_patterns):
            if name not in names:
                known = f"its patterns are: {', '.join(names)}"
                hint = did_you_mean(name, names)
                raise UsageError(
                    f"pass 'canonicalize' has no pattern '{name}'{hint}",
                    code="bad-option",
                    notes=(known,),
                )
        chosen = self.enable_patterns or names
        return [r for r in everything if r.name in chosen and r.name not in self.disable_patterns]

    def _all_rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (
            RedundantClamp(session),
            RepeatedClamp(session),
            ClampByConstant(session),
            IdentityMovement(session),
            ComposeTranspose(session),
            ComposeReshape(session),
            ComposeFlip(session),
            SinkMovements(session),
            PadIntoWindow(session),
            StorageCastPair(session),
            ExactReciprocal(session),
        )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run the pass on a module, in place."""
        Dce().apply(ctx, op)  # what is dead uses nothing
        qctx = session(ctx)
        before = qctx.rewrites_left
        if self.max_num_rewrites >= 0 and (before is None or before > self.max_num_rewrites):
            qctx.rewrites_left = self.max_num_rewrites
            super().apply(qctx, op)
            stopped = qctx.rewrites_left == 0
            done = self.max_num_rewrites - (qctx.rewrites_left or 0)
            qctx.rewrites_left = None if before is None else before - done
            if stopped and self.test_convergence:
                raise InputError("canonicalize did not converge", code="pass-failed")
        else:
            super().apply(ctx, op)
        Dce().apply(ctx, op)


@cache
def canonicalization_patterns() -> Sequence[RulePattern]:
    """The rules for ops of any module, in a session of their own that remembers nothing."""
    return Canonicalize().patterns(QContext(), logs=False)


@cache
def patterns_of(name: str) -> tuple[RulePattern, ...]:
    """Those of them that can match at an op of that name."""
    return tuple(found for found in canonicalization_patterns() if name in found.rule.roots())
