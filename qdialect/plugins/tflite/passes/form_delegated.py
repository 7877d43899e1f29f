"""Write functions of codes and float islands as what XNNPACK in LiteRT runs fastest.

Converters leave ops on floats in integer networks, between DEQUANTIZE and QUANTIZE, and ops on
codes that XNNPACK does not take, so that they run on slow kernels. XNNPACK runs an island of one
function as a table, the kernel of LEAKY_RELU in half of that time, and HARD_SWISH off it takes 34
times as long (measured, ai-edge-litert 2.3: 21, 10 and 734 us on 200 704 codes). So

    codes of f(x)  =  quantize(f(dequantize(x)))

is read in the direction that is faster. It is exact where both sides have the same codes: of one
operand all 256 are compared, of two all 65 536 pairs, by the arithmetic of the kernels
(`tflite.numerics.functions`); else it is off by so many steps as they differ by (`bounded`).

The rules are for modules that are read for XNNPACK (`tflite.kernels = "litert-xnn"`), whose
quantizes multiply by the reciprocal of the scale.

For example, for scales with which no code differs,

    %0 = quant.dcast %x {nn.kernel = "litert-xnn"} : !x to !f
    %1 = nn.leaky_relu %0 alpha 0.5 : (!f) -> !f
    %2 = quant.qcast %1 {nn.kernel = "litert-xnn"} : !f to !y

becomes

    %2 = nn.leaky_relu %x alpha 0.5 {nn.kernel = "litert-xnn"} : (!x) -> !y
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra import arithmetic
from qdialect.algebra.contract import Contract, Numerics
from qdialect.algebra.lazy_numpy import np
from qdialect.algebra.requantize import QuantGrid, affine
from qdialect.algebra.rounding import Rounding
from qdialect.analysis.codes import qparams_of
from qdialect.ir import ops as nn
from qdialect.ir.context import QContext
from qdialect.ir.ops.base import KERNEL, NNOp, kernels_of
from qdialect.ir.ops.keys import KEY
from qdialect.ir.quant import (
    DCastOp,
    QCastOp,
    RescaleOp,
    arithmetic_of,
    cast_rounding,
    expressed_type,
    with_element,
)
from qdialect.passes.rule_pass import RulePass
from qdialect.plugins.tflite.dialect import kernels_of_module
from qdialect.plugins.tflite.numerics import functions
from qdialect.plugins.tflite.numerics import rescale as litert
from qdialect.plugins.tflite.numerics.functions import Table
from qdialect.rewrite import Refusal, Rewriter, Rule

XNN = "litert-xnn"
_MARK = StringAttr(XNN)
_WIDEST = 8
"""Bits of codes of which all, and all pairs, are compared."""

Real = Callable[[Any], Any]


def _itself(x: Any) -> Any:
    return x


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


_REALS: Mapping[str, Real] = {
    "nn.exp": lambda x: np.exp(np.minimum(x, 700.0)),
    "nn.hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}


def _grid(value: SSAValue) -> QuantGrid | None:
    """The parameters of a value of few codes and one scale; None for others."""
    params = qparams_of(value)
    if params is None or not params.is_per_tensor or params.storage.width > _WIDEST:
        return None
    return None if params.expressed != "f32" or params.storage.is_float else affine(params)


def _source(value: SSAValue) -> SSAValue | None:
    """The codes that XNNPACK dequantizes as `value`."""
    owner = value.owner
    if not isinstance(owner, DCastOp) or kernels_of(owner) not in (None, XNN):
        return None
    return owner.input


def _is_xnn(cast: QCastOp) -> bool:
    """Whether a quantize is what XNNPACK's does: by the reciprocal of the scale."""
    named = kernels_of(cast)
    return named == XNN or (named is None and cast_rounding(cast) is Rounding.RECIPROCAL)


def _verdict(found: int) -> Contract:
    if not found:
        return Contract(Numerics.EXACT, note="equal on all codes", by_kernels=True)
    return Contract(Numerics.BOUNDED, found, "compared on all codes", by_kernels=True)


# -- islands ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Island:
    """Codes `sources`, dequantized, through `op` (None: as they are), quantized by `cast`."""

    cast: QCastOp
    op: NNOp | None
    sources: Sequence[SSAValue]


class IslandToCodes(Rule[_Island]):
    """quantize(f(dequantize(x))) = f(x), for kernels of codes that XNNPACK has."""

    name = "island-to-codes"
    root = QCastOp.name

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self._applies = False

    def prepare(self, module: Operation) -> None:
        self._applies = kernels_of_module(module) == XNN

    def match(self, op: Operation) -> _Island | None:
        assert isinstance(op, QCastOp)
        if not self._applies or not _is_xnn(op):
            return None
        owner = op.input.owner
        if isinstance(owner, DCastOp):
            source = _source(op.input)
            return None if source is None else _Island(op, None, [source])
        kinds = (nn.LeakyReluOp, nn.ReluOp, nn.ClipOp, nn.AddOp, nn.SubOp, nn.MulOp)
        if not isinstance(owner, kinds) or kernels_of(owner) is not None:
            return None
        sources = [source for v in owner.operands if (source := _source(v)) is not None]
        return _Island(op, owner, sources) if len(sources) == len(owner.operands) else None

    def check(self, match: _Island) -> Contract | Refusal:
        grids = [_grid(value) for value in (*match.sources, match.cast.result)]
        known = [grid for grid in grids if grid is not None]
        if len(known) < len(grids):
            return Refusal("storage", "its codes are not of 8 bits and one scale")
        if match.op is not None and not match.op.results[0].has_one_use():
            return Refusal("multi-use", "the float result is also used elsewhere")
        if len(known) == 3:
            return self._of_two(match, *known)
        a, b = known
        made = self._made(match, a, b)
        if made is None:
            return Refusal("form", "XNNPACK has no op on these codes")
        return _verdict(functions.island(a, b, self._steps(match.op)).apart(made))

    def _made(self, match: _Island, a: QuantGrid, b: QuantGrid) -> Table | None:
        """The codes that the op gives."""
        op = match.op
        if isinstance(op, nn.LeakyReluOp):
            return functions.leaky_relu(a, b, float(op.values["alpha"]))
        if op is not None:
            # A clamp keeps codes; it is fused with what makes them.
            return functions.island(a, b, self._steps(op)) if a == b else None
        codes = litert.quantized_again(a, b)
        floats = arithmetic_of(match.cast).floats("f32")
        meant = arithmetic.table(a, b, Rounding.HALF_EVEN, floats)
        if codes is None or not np.array_equal(codes, meant):
            return None
        return Table(codes, np.zeros(codes.shape, np.bool_))

    @staticmethod
    def _steps(op: NNOp | None) -> Real:
        if op is None:
            return _itself
        if isinstance(op, nn.LeakyReluOp):
            alpha = np.float32(op.values["alpha"])
            return lambda x: np.maximum(x, 0) + np.minimum(x, 0) * alpha
        low, high = 0.0, inf
        if isinstance(op, nn.ClipOp):
            low, high = op.values.get("min", -inf), op.values.get("max", inf)
        return lambda x: np.clip(x, np.float32(low), np.float32(high))

    @staticmethod
    def _of_two(match: _Island, a: QuantGrid, b: QuantGrid, c: QuantGrid) -> Contract | Refusal:
        if isinstance(match.op, nn.MulOp):
            made, meant = functions.pairs_of_products(a, b, c)
            return _verdict(int(np.abs(made - meant).max()))
        sign = -1 if isinstance(match.op, nn.SubOp) else 1
        sums = litert.added(a, b, c, sign)
        if sums is None:
            return Refusal("form", "XNNPACK does not take the ratios of these scales")
        meant = functions.in_floats(litert.sums(a, b, sign, floats=True), c)
        return _verdict(int(np.abs(sums - meant).max()))

    def rewrite(self, match: _Island, rewriter: Rewriter) -> None:
        cast, op = match.cast, match.op
        kind = cast.result.type
        new: Operation
        if op is None:
            new = RescaleOp(match.sources[0], kind, Rounding.HALF_EVEN)
        else:
            new = type(op).create(
                operands=match.sources,
                result_types=[kind],
                properties=op.properties,
            )
            if not isinstance(op, nn.ReluOp | nn.ClipOp):
                new.attributes[KERNEL] = _MARK
        rewriter.insert(new, cast, keep=cast)
        rewriter.replace(cast, new.results)


# -- ops off the delegate ----------------------------------------------------------------


class CodesToIsland(Rule[NNOp]):
    """f(x) = quantize(f(dequantize(x))), for kernels of codes that XNNPACK has not."""

    name = "codes-to-island"

    def __init__(self, session: QContext) -> None:
        super().__init__(session)
        self._applies = False

    def prepare(self, module: Operation) -> None:
        self._applies = kernels_of_module(module) == XNN

    def roots(self) -> Iterable[str]:
        return ("nn.hard_swish", "nn.exp", "nn.gelu")

    def match(self, op: Operation) -> NNOp | None:
        assert isinstance(op, NNOp)
        return op if self._applies and kernels_of(op) == "litert-opt" else None

    def check(self, match: NNOp) -> Contract | Refusal:
        a, b = _grid(match.operands[0]), _grid(match.results[0])
        if a is None or b is None:
            return Refusal("storage", "its codes are not of 8 bits and one scale")
        real = _REALS.get(match.name) or _gelu(match)
        meant = functions.of_real(a, b, real)
        codes: Table | None = meant
        if match.name == "nn.hard_swish":
            codes = functions.hard_swish(a, b)
        if codes is None:
            return Refusal("form", "LiteRT refuses these scales")
        apart = 0 if codes.is_same(meant) else max(codes.apart(meant), 1)
        return _verdict(apart)

    def rewrite(self, match: NNOp, rewriter: Rewriter) -> None:
        kinds = [_floats(match.operands[0]), _floats(match.results[0])]
        real = DCastOp(match.operands[0], kinds[0])
        properties = dict(match.properties)
        if "rounding" in properties:
            properties["rounding"] = StringAttr("half_even")
        attributes = {n: a for n, a in match.attributes.items() if n not in (KERNEL, KEY)}
        new = type(match).create(
            operands=[real.result],
            result_types=[kinds[1]],
            properties=properties,
            attributes=attributes,
        )
        codes = QCastOp(new.results[0], match.results[0].type)
        for cast in (real, codes):
            cast.attributes[KERNEL] = _MARK
        for op in (real, new):
            rewriter.insert(op, match)
        rewriter.insert(codes, match, keep=match)
        rewriter.replace(match, codes.results)


def _gelu(op: NNOp) -> Real:
    if op.values.get("approximate") == "tanh":
        return lambda x: 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))
    return lambda x: 0.5 * x * (1 + _erf(x * 0.7071067811865476))


def _floats(value: SSAValue) -> Attribute:
    params = qparams_of(value)
    assert params is not None
    return with_element(value.type, expressed_type(params))


@dataclass(frozen=True)
class FormDelegated(RulePass):
    """What XNNPACK runs fastest of functions of codes and of float islands; see the module."""

    name = "form-delegated"
    of = (IslandToCodes, CodesToIsland)
