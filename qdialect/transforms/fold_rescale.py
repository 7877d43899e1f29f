"""Fold rescales and the casts around them.

rescale(q) to the same type                 -> q                      exact
rescale(rescale(q))                         -> rescale(q)             exact if the
                   middle loses nothing on the image (decided on all codes), else
                   bounded(s_mid / (2 s_out) + 1) if the middle cannot saturate
rescale(constant)                           -> constant               exact
quantize(constant)                          -> constant               exact
quantize(dequantize(q)), same type          -> q                      exact if codes
                   are inside the bounds and the float path is wide enough
quantize(dequantize(q)), other type         -> rescale(q)             exact (reals)
rescale(quantize(x))                        -> quantize(x)            as a pair
dequantize(rescale(q)), dequantize(quantize(x))                       relaxed

For example

    %0 = quant.rescale %x : !q to !wide
    %1 = quant.rescale %0 : !wide to !double

becomes

    %1 = quant.rescale %x : !q to !double
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from qdialect.behaviors import BehaviorRegistry
from qdialect.behaviors import Rule as PortRule
from qdialect.context import QContext
from qdialect.dialects.nn import ConstantOp, constant_array, constant_of, make_constant
from qdialect.dialects.nn.base import KEY
from qdialect.dialects.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    cast_rounding,
    quant_element,
)
from qdialect.numerics import requantize as exact
from qdialect.numerics.contract import EXACT, Contract, Numerics
from qdialect.numerics.rounding import Rounding
from qdialect.qparams import QParams
from qdialect.rewrite import Refusal, Rewriter, Rule
from qdialect.transforms.rule_pass import (
    RulePass,
    dequantized,
    is_integer,
    qparams_of,
    rescaled,
)

#: expressed type -> (significand bits, largest finite, smallest normal)
_FLOATS = {
    "f16": (11, 65504.0, 2.0**-14),
    "bf16": (8, 3.3895313892515355e38, 2.0**-126),
    "f32": (24, 3.4028234663852886e38, 2.0**-126),
    "f64": (53, 1.7976931348623157e308, 2.0**-1022),
}


@dataclass(frozen=True)
class Pair:
    """An op and the op that defines its operand."""

    lower: Operation
    upper: Operation

    @property
    def source(self) -> SSAValue:
        return self.upper.operands[0]

    @property
    def result(self) -> SSAValue:
        return self.lower.results[0]


def inside_bounds(value: SSAValue, behaviors: BehaviorRegistry) -> bool:
    """Whether every code of `value` is provably within its storage bounds: the
    bounds are the storage's own, or the value was clamped when it was made."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        current = pending.pop()
        params = qparams_of(current)
        if params is None or params.storage.is_full_range or current in seen:
            continue
        seen.add(current)
        owner = current.owner
        if isinstance(owner, QCastOp | RescaleOp):
            continue
        behavior = behaviors.get(owner) if isinstance(owner, Operation) else None
        if behavior is None or not isinstance(owner, Operation):
            return False
        if behavior.is_tied:
            pending += [
                v
                for i, v in enumerate(owner.operands)
                if behavior.operand_port(i).rule is PortRule.TIED
            ]
    return True


def seen_qparams(value: SSAValue, behaviors: BehaviorRegistry) -> QParams | None:
    """The qparams of `value`, with the storage's own bounds unless every code is
    provably within the declared ones: what a decision over all codes must look at."""
    params = qparams_of(value)
    if params is None or not is_integer(params) or inside_bounds(value, behaviors):
        return params
    low, high = params.storage.full_range
    return params.with_storage(replace(params.storage, min=low, max=high))


def survives_float(params: QParams) -> bool:
    """Whether quantize(dequantize(q)) = q for every code, in the expressed type.

    Two roundings move n = q - z by at most n * 2**(1-p); that stays below half a
    step while |n| < 2**(p-2), if n * scale neither overflows nor underflows.
    """
    if params.expressed not in _FLOATS:
        return False
    bits, largest, smallest = _FLOATS[params.expressed]
    for a in exact.affines(params):
        furthest = max(abs(a.low - a.zero), abs(a.high - a.zero))
        if furthest >= 2 ** (bits - 2) or a.scale < smallest or furthest * a.scale > largest:
            return False
    return True


class QuantizeOfDequantize(Rule[Pair]):
    """quantize_b(dequantize_a(q)) = q if a = b, else rescale_{a->b}(q)."""

    name = "quantize-of-dequantize"

    def roots(self) -> Iterable[str]:
        return (QCastOp.name,)

    def match(self, op: Operation) -> Pair | None:
        upper = dequantized(op.operands[0])
        if upper is None or qparams_of(op.results[0]) is None or qparams_of(upper.input) is None:
            return None
        return Pair(op, upper)

    def check(self, match: Pair) -> Contract | Refusal:
        a, b = qparams_of(match.source), qparams_of(match.result)
        assert a is not None and b is not None
        if not (is_integer(a) and is_integer(b)):
            return Refusal("storage", "rescale is defined between integer storages")
        if a == b:
            if not inside_bounds(match.source, self.session.behaviors):
                return Refusal("bounds", "codes may lie outside the narrowed bounds")
            if not survives_float(a):
                return Refusal("float-path", f"{a.expressed} cannot carry every code")
            return EXACT
        if exact.cells(a, b) is None:
            return Refusal("grid", "the two encodings lie on different grids")
        if cast_rounding(match.lower) is Rounding.GEMMLOWP:
            return NO_GEMMLOWP
        return EXACT

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        if match.source.type == match.result.type:
            rewriter.replace(match.lower, [match.source])
            return
        new = RescaleOp(match.source, match.result.type, cast_rounding(match.lower))
        rewriter.insert(new, match.lower, keep=match.lower)
        rewriter.replace(match.lower, new.results)


class IdentityRescale(Rule[RescaleOp]):
    """rescale to the type it comes from changes nothing."""

    name = "identity-rescale"

    def roots(self) -> Iterable[str]:
        return (RescaleOp.name,)

    def match(self, op: Operation) -> RescaleOp | None:
        assert isinstance(op, RescaleOp)
        same = op.input.type == op.result.type and op.fixed_point is None
        return op if same else None

    def check(self, match: RescaleOp) -> Contract | Refusal:
        if inside_bounds(match.input, self.session.behaviors):
            return EXACT
        return Refusal("bounds", "codes may lie outside the narrowed bounds")

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        rewriter.replace(match, [match.input])


def pair_contract(
    a: QParams | None, b: QParams, c: QParams, first: Rounding, second: Rounding
) -> Contract | Refusal:
    """What replacing a -> b -> c by a -> c may change; `a` None means any real number.

    Dropping the middle drops an error of half a middle step, so results differ by
    at most s_b / (2 s_c) + 1 steps, if the middle clips nothing that c would not.
    The new a -> c rounds like the second; of a real number, if b and c have equal
    scales (`renumbers`), like the first.
    """
    if Rounding.GEMMLOWP in (first, second):
        return NO_GEMMLOWP
    quads = _triples(a, b, c)
    if quads is None:
        return Refusal("grid", "the encodings lie on different grids")
    if a is None:
        if renumbers(b, c) and all(exact.covers(mid, out) for _, mid, out in quads):
            return Contract(Numerics.EXACT, note="equal scales")
    elif all(exact.is_lossless(_set(src), mid) for src, mid, _ in quads):
        return Contract(Numerics.EXACT, note="the middle loses nothing")
    elif max(a.storage.width, b.storage.width) <= exact.TABLE_WIDTH and all(
        exact.composes(_set(src), mid, out, first, second) for src, mid, out in quads
    ):
        return Contract(Numerics.EXACT, note="equal on all codes")
    steps = max(mid.scale / (2 * out.scale) for _, mid, out in quads) + 1
    clips = [
        mid
        for src, mid, out in quads
        if not exact.covers(mid, out) and (src is None or not exact.covers(mid, src))
    ]
    if clips:
        low, high = exact.real_range(clips[0])
        note = f"the middle clips to [{float(low):g}, {float(high):g}]"
        return Contract(Numerics.SATURATION, steps, note)
    return Contract(Numerics.BOUNDED, steps, "drops the middle's rounding")


NO_GEMMLOWP = Refusal("rounding", "gemmlowp rounds multiplier and shift, no real numbers")


def renumbers(b: QParams, c: QParams) -> bool:
    """Whether b -> c has equal scales everywhere: then it never rounds."""
    return all(exact.is_pure_shift(mid, out) for mid, out in exact.cells(b, c) or ())


def _set(affine: exact.Affine | None) -> exact.Affine:
    assert affine is not None
    return affine


def _triples(
    a: QParams | None, b: QParams, c: QParams
) -> list[tuple[exact.Affine | None, exact.Affine, exact.Affine]] | None:
    if exact.cells(b, c) is None or (a is not None and exact.cells(a, b) is None):
        return None
    if a is not None and exact.cells(a, c) is None:
        return None
    if a is None:
        return [(None, mid, out) for mid, out in exact.cells(b, c) or ()]
    return [(src, mid, out) for src, mid, out in exact.triples(a, b, c)]


class RescaleOfRescale(Rule[Pair]):
    """rescale_{b->c}(rescale_{a->b}(q)) = rescale_{a->c}(q); see `pair_contract`."""

    name = "rescale-of-rescale"

    def roots(self) -> Iterable[str]:
        return (RescaleOp.name,)

    def match(self, op: Operation) -> Pair | None:
        assert isinstance(op, RescaleOp)
        upper = rescaled(op.input)
        return Pair(op, upper) if upper is not None and op.fixed_point is None else None

    def check(self, match: Pair) -> Contract | Refusal:
        lower, upper = match.lower, match.upper
        assert isinstance(lower, RescaleOp) and isinstance(upper, RescaleOp)
        return pair_contract(
            seen_qparams(upper.input, self.session.behaviors),
            upper.result_qparams,
            lower.result_qparams,
            upper.rounding,
            lower.rounding,
        )

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        assert isinstance(match.lower, RescaleOp)
        new = RescaleOp(match.source, match.result.type, match.lower.rounding)
        rewriter.insert(new, match.lower, keep=match.lower)
        rewriter.replace(match.lower, new.results)


class RescaleOfQuantize(Rule[Pair]):
    """rescale_{b->c}(quantize_b(x)) = quantize_c(x); see `pair_contract`."""

    name = "rescale-of-quantize"

    def roots(self) -> Iterable[str]:
        return (RescaleOp.name,)

    def match(self, op: Operation) -> Pair | None:
        assert isinstance(op, RescaleOp)
        upper = op.input.owner
        return Pair(op, upper) if isinstance(upper, QCastOp) and op.fixed_point is None else None

    def check(self, match: Pair) -> Contract | Refusal:
        lower = match.lower
        assert isinstance(lower, RescaleOp)
        if not lower.input.has_one_use():
            return Refusal("multi-use", "the quantized value is also used elsewhere")
        first = cast_rounding(match.upper)
        return pair_contract(None, lower.input_qparams, lower.result_qparams, first, lower.rounding)

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        assert isinstance(match.lower, RescaleOp)
        new = QCastOp(match.source, match.result.type)
        if "quant.rounding" in match.upper.attributes:
            new.attributes["quant.rounding"] = match.upper.attributes["quant.rounding"]
        rewriter.insert(new, match.lower, keep=match.upper)
        rewriter.replace(match.lower, new.results)


class RescaleOfConstant(Rule[RescaleOp]):
    """A rescaled constant is a constant, computed exactly."""

    name = "rescale-of-constant"

    def roots(self) -> Iterable[str]:
        return (RescaleOp.name,)

    def match(self, op: Operation) -> RescaleOp | None:
        assert isinstance(op, RescaleOp)
        is_real = op.fixed_point is None
        return op if is_real and constant_of(op.input) is not None else None

    def check(self, match: RescaleOp) -> Contract | Refusal:
        if exact.cells(match.input_qparams, match.result_qparams) is None:
            return Refusal("grid", "the two encodings lie on different grids")
        return NO_GEMMLOWP if match.rounding is Rounding.GEMMLOWP else EXACT

    def rewrite(self, match: RescaleOp, rewriter: Rewriter) -> None:
        from qdialect.numerics.quantize import rescale_codes

        constant = constant_of(match.input)
        assert constant is not None
        codes = rescale_codes(
            constant_array(constant, self.session.blobs),
            match.input_qparams,
            match.result_qparams,
            match.rounding,
        )
        _replace_by_constant(match, codes, constant, self.session, rewriter)


class QuantizeOfConstant(Rule[QCastOp]):
    """A quantized constant is a constant, computed as ONNX QuantizeLinear does."""

    name = "quantize-of-constant"

    def roots(self) -> Iterable[str]:
        return (QCastOp.name,)

    def match(self, op: Operation) -> QCastOp | None:
        assert isinstance(op, QCastOp)
        known = constant_of(op.input) is not None and quant_element(op.result.type) is not None
        return op if known else None

    def check(self, match: QCastOp) -> Contract | Refusal:
        from qdialect.numerics.quantize import can_quantize_floats

        params = qparams_of(match.result)
        assert params is not None
        if not can_quantize_floats(params) or not is_integer(params):
            return Refusal("expressed", f"cannot evaluate in {params.expressed}")
        return NO_GEMMLOWP if cast_rounding(match) is Rounding.GEMMLOWP else EXACT

    def rewrite(self, match: QCastOp, rewriter: Rewriter) -> None:
        from qdialect.numerics.quantize import quantize_floats

        constant, params = constant_of(match.input), qparams_of(match.result)
        assert constant is not None and params is not None
        floats = constant_array(constant, self.session.blobs)
        codes = quantize_floats(floats, params, cast_rounding(match))
        _replace_by_constant(match, codes, constant, self.session, rewriter)


def _replace_by_constant(
    op: Operation, codes: Any, source: ConstantOp, session: QContext, rewriter: Rewriter
) -> None:
    element = quant_element(op.results[0].type)
    assert element is not None
    kept = {KEY: source.attributes[KEY]} if KEY in source.attributes else None
    new = make_constant(codes, element, session.blobs, kept)
    rewriter.insert(new, op, keep=source)
    rewriter.replace(op, new.results)


class DequantizeOfRescale(Rule[Pair]):
    """dequantize(rescale(q)) ~ dequantize(q): drops a rounding and a clip."""

    name = "dequantize-of-rescale"

    def roots(self) -> Iterable[str]:
        return (DCastOp.name,)

    def match(self, op: Operation) -> Pair | None:
        upper = rescaled(op.operands[0])
        return Pair(op, upper) if upper is not None else None

    def check(self, match: Pair) -> Contract | Refusal:
        upper = match.upper
        assert isinstance(upper, RescaleOp)
        source = seen_qparams(upper.input, self.session.behaviors) or upper.input_qparams
        cells = exact.cells(source, upper.result_qparams)
        if upper.input_qparams.expressed != upper.result_qparams.expressed:
            return Refusal("expressed", "the expressed types differ")
        lossless = cells and all(exact.is_lossless(a, b) and a.scale == b.scale for a, b in cells)
        if lossless:
            return Contract(Numerics.EXACT, note="the rescale renumbers codes")
        return Contract(Numerics.RELAXED, note="drops a rounding and a clip")

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        new = DCastOp(match.source, match.result.type)
        rewriter.insert(new, match.lower, keep=match.lower)
        rewriter.replace(match.lower, new.results)


class DequantizeOfQuantize(Rule[Pair]):
    """dequantize(quantize(x)) ~ x: drops a rounding and a clip, so never unasked."""

    name = "dequantize-of-quantize"

    def roots(self) -> Iterable[str]:
        return (DCastOp.name,)

    def match(self, op: Operation) -> Pair | None:
        upper = op.operands[0].owner
        if not isinstance(upper, QCastOp) or upper.input.type != op.results[0].type:
            return None
        return Pair(op, upper)

    def check(self, match: Pair) -> Contract | Refusal:
        return Contract(Numerics.RELAXED, note="drops a rounding and a clip")

    def rewrite(self, match: Pair, rewriter: Rewriter) -> None:
        rewriter.replace(match.lower, [match.source])


@dataclass(frozen=True)
class FoldRescale(RulePass):
    """Fold rescales and the casts around them; see the module."""

    name = "fold-rescale"

    def rules(self, session: QContext) -> Sequence[Rule[Any]]:
        return (
            IdentityRescale(session),
            RescaleOfConstant(session),
            RescaleOfRescale(session),
            RescaleOfQuantize(session),
            QuantizeOfDequantize(session),
            QuantizeOfConstant(session),
            DequantizeOfRescale(session),
            DequantizeOfQuantize(session),
        )
