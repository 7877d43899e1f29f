"""What an op declares, once, about its behavior under quantization.

Every pass (integerize, sink, hoist, combine, place, verify, report) reads these
declarations and nothing else about an op; a backend registers its own from
outside (`BehaviorRegistry.register`).  The words are those of
docs/design/001-architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Operation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from qdialect.qparams import QParams
    from qdialect.qparams.maps import IndexMap


class PortKind(Enum):
    """What a port does with the qparams of the value on it."""

    #: the op takes qparams as they come; its meaning is dequantize, op, quantize
    REQUANT = "requantizing"
    #: all tied ports of an op have the same qparams (through the op's index map)
    TIED = "tied"
    #: the op or the target dictates the qparams
    FIXED = "fixed"
    #: i32 storage, zero point 0, scale = product of the accumulator's scales
    BIAS = "bias"
    #: never quantized: indices, conditions, statistics
    PLAIN = "plain"


AxesOf = Callable[[Operation], frozenset[int]]


def no_axes(op: Operation) -> frozenset[int]:
    """Per tensor only."""
    return frozenset()


def axes(*allowed: int) -> AxesOf:
    """Per axis allowed on these dimensions."""
    result = frozenset(allowed)
    return lambda op: result


@dataclass(frozen=True)
class Port:
    """One operand or result as the declaration sees it.

    `axes` gives the dimensions on which the port takes per-axis qparams, or None
    for any; `storages` the storage spellings allowed, or None for any.
    """

    role: str
    rule: PortKind = PortKind.REQUANT
    axes: AxesOf | None = no_axes
    storages: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Accumulator:
    """A contraction: integer products of two operands summed exactly.

    `lhs` and `rhs` are operand numbers, `bias` that of the optional bias.  The
    accumulator is i32 with scale `scale_lhs * scale_rhs` and zero point 0; a
    per-axis vector on dimension `rhs_axis(op)` of rhs lands on `result_axis(op)`
    of the result, `repeats(op)` times over (groups that share it).  `depth(op)` is the
    number of products summed per element.
    """

    lhs: int
    rhs: int
    bias: int | None
    rhs_axis: Callable[[Operation], int]
    result_axis: Callable[[Operation], int]
    depth: Callable[[Operation], int]
    repeats: Callable[[Operation], int] = lambda op: 1
    #: whether fewer products may meet: others are of padding, which is real 0
    pads: Callable[[Operation], bool] | None = None


class AffineFunction(NamedTuple):
    """x -> min(max(slope * x + offset, low), high) in exact real units."""

    slope: Fraction
    offset: Fraction
    low: float = -inf
    high: float = inf


Bounds = tuple[Fraction | None, Fraction | None]
"""Low and high; None where there is no bound."""


class Size(NamedTuple):
    """What |x| is known to be for every element x of a tensor, in real units: bounds, and
    of a constant each element's."""

    low: float = 0.0
    high: float = inf
    elements: NDArray[np.float64] | None = None


Sizes = Callable[[int], Size]
"""The size of an operand, by number; of the one that changes, before and after."""

Gain = Callable[[Operation, int, Sizes], "float | None"]

RealFunction = Callable[[Operation, "NDArray[np.float64]"], "NDArray[np.float64]"]


@dataclass(frozen=True)
class Behavior:
    """The declaration of one op.

    `operands` has one port per operand (the last repeats when `variadic`);
    `results` likewise one per result.  Tied ports are related by `movement` when
    the op copies elements, and are elementwise the same field otherwise.
    """

    op: str
    operands: tuple[Port, ...]
    results: tuple[Port, ...] = (Port("result"),)
    variadic: bool = False
    #: the index map of a movement op, or one per result; None if the op computes anything
    movement: Callable[[Operation], IndexMap | Sequence[IndexMap]] | None = None
    #: the same, given the values of the plain operands (indices, conditions), for a
    #: movement that depends on them; `movement` is then what holds whatever they are
    movement_given: Callable[[Operation, Sequence[NDArray[Any]]], IndexMap] | None = None
    #: for a movement op with several results: the map from them back to its operand
    joins: Callable[[Operation], IndexMap] | None = None
    #: where the parameters of each tied operand are along the result of an op that
    #: computes, if it broadcasts or reduces: one index map per tied operand, from which
    #: elements it need not say
    carries: Callable[[Operation], Sequence[IndexMap]] | None = None
    #: commutes with every monotone map of values (max pool, relu, clip ...)
    order_preserving: bool = False
    #: plain results only tell how the elements of the tied operands, which lie in one field,
    #: compare (a comparison, an argmax): a strictly monotone map of values leaves them
    compares: bool = False
    #: the real constants an order-preserving op compares with (relu: 0)
    levels: Callable[[Operation], Sequence[float]] | None = None
    #: for min(max(x, low), high): its bounds in real units (infinite where absent)
    clamp: Callable[[Operation], tuple[float, float]] | None = None
    #: whether a movement op copies its one operand unchanged
    is_identity: Callable[[Operation], bool] | None = None
    #: the op on its operands, written with + - * / @, clip(low, high), reshape, swapaxes
    #: and indexing only: on exact rationals what it means on quantized tensors, on numpy
    #: floats what it computes; ValueError where it means nothing
    arithmetic: Callable[[Operation, Sequence[Any]], Any] | None = None
    #: whether `arithmetic` also takes square roots, in which it is monotone
    roots: bool = False
    #: how many numbers `arithmetic` multiplies or sums where that is several for one
    #: element of the result (on floats it then rounds several times)
    work: Callable[[Operation], int] | None = None
    #: the op on one operand in real units, evaluated in float64, where `arithmetic` cannot
    #: say it and elements of the result depend on several of the operand
    transcendental: RealFunction | None = None
    #: for an op that picks elements by order: its result on the numbers of the operand in
    #: any representation that keeps the order (codes, floats), given the lowest one
    picks: Callable[[Operation, NDArray[Any], Any], NDArray[Any]] | None = None
    #: for an op that picks, element by element with broadcasting, one of its tied
    #: operands by order: the same on numbers in any representation that keeps the order
    chooses: Callable[[Operation, Sequence[NDArray[Any]]], NDArray[Any]] | None = None
    #: for an op that is a clamp of one operand where the others are real constants: its
    #: bounds in real units, given the constants (None for x), or None if it is none
    as_clamp: Callable[[Operation, Sequence[Fraction | None]], Bounds | None] | None = None
    #: each element of the result depends on the elements of the operands at its place
    #: alone (which broadcast as in numpy)
    elementwise: bool = False
    #: f(x) elementwise on one operand, in real units, evaluated in float64
    pointwise: RealFunction | None = None
    #: the op written with `elementary_functions` besides those of `arithmetic`, which cannot say
    #: it: on real numbers (`numerics.reals`) it decides which code is nearest
    analytic: Callable[[Operation, Sequence[Any]], Any] | None = None
    #: the same on floats, each step rounded, where runtimes take other steps than
    #: `arithmetic` or `analytic`; ValueError where they do not round each step
    in_floats: Callable[[Operation, Sequence[Any]], Any] | None = None
    #: for f(x) = clamp(slope * x + offset) on one operand, the others being real
    #: constants: what f is, given the constants (None for x), or None if it is not;
    #: constants that differ along a dimension are given index by index
    affine: Callable[[Operation, Sequence[Fraction | None]], AffineFunction | None] | None = None
    #: the dimension of x that constant vectors lie along, if not as numpy broadcasts them
    affine_along: int | None = None
    #: for an op that is defined on codes (a lookup) and not on the reals they name: the
    #: stored result, given the stored operands
    on_codes: Callable[[Operation, Sequence[NDArray[Any]]], NDArray[Any]] | None = None
    accumulator: Accumulator | None = None
    #: largest output change in real units per unit of input change, operand by
    #: operand, given the sizes of all (None or infinite: no bound); used for `bounded(k)`
    gain: Gain | None = None
    #: bounds of the result in real units, given those of the operands, for an op whose
    #: `arithmetic` cannot be run on intervals or gives wide ones (`qdialect.numerics.ranges`);
    #: ValueError where there is no bound
    interval: Callable[[Operation, Sequence[Any]], Any] | None = None
    #: the step of which every result is a multiple, exactly, if the operands have these
    #: qparams (a sum of one scale, a product of scales); None if there is none
    grid: Callable[[Operation, Sequence[QParams]], Fraction | None] | None = None
    #: operands that must not be zero for the real function to be defined
    nonzero: tuple[int, ...] = ()
    #: a movement op whose meaning is also defined on operands of unequal qparams
    mixes: bool = False

    def __post_init__(self) -> None:
        problem = self._contradiction()
        if problem is not None:
            from qdialect.errors import QError

            raise QError(f"behavior of '{self.op}': {problem}", code="bad-behavior")

    def _contradiction(self) -> str | None:
        tied = [p for p in (*self.operands, *self.results) if p.rule is PortKind.TIED]
        roles = [p.role for p in self.operands]
        if not self.results:
            return "there is no result port"
        if len(set(roles)) != len(roles):
            return "two operands have the same role"
        if self.movement and not (tied and any(p.rule is PortKind.TIED for p in self.results)):
            return "a movement op needs a tied operand and a tied result"
        sides = (self.operands, self.results)
        if self.compares:
            if self.movement or self.order_preserving or not tied:
                return "an op that tells order has tied operands, and computes"
            if not any(p.rule is PortKind.PLAIN for p in self.results):
                return "an op that tells order has a plain result"
        elif len({any(p.rule is PortKind.TIED for p in side) for side in sides}) > 1:
            return "tied ports need an operand and a result"
        if self.order_preserving and not tied:
            return "an order-preserving op needs tied ports"
        if any(p.rule is PortKind.REQUANT for p in (*self.operands, *self.results)):
            if self.movement:
                return "a movement op cannot have a requantizing port"
            if self.order_preserving:
                return "an order-preserving op cannot have a requantizing port"
        if self.levels and not self.order_preserving:
            return "levels are for order-preserving ops"
        picks = self.clamp or self.picks or self.chooses or self.as_clamp
        if picks and not self.order_preserving:
            return "a clamp is order-preserving, and so is picking by order"
        if self.carries and (self.movement or not tied):
            return "carries is for tied ports of an op that computes"
        if self.mixes and not self.movement:
            return "mixes is for movement ops"
        if any(not 0 <= n < len(self.operands) for n in self.nonzero):
            return "nonzero names operands the op does not have"
        if (self.is_identity or self.movement_given or self.joins) and not self.movement:
            return "is_identity, movement_given and joins are for movement ops"
        if self.variadic and not self.operands:
            return "variadic without an operand port"
        acc = self.accumulator
        if acc:
            if self.movement or self.order_preserving:
                return "an accumulator computes: the op neither moves nor picks"
            used = [n for n in (acc.lhs, acc.rhs, acc.bias) if n is not None]
            if len(set(used)) != len(used) or max(used) >= len(self.operands):
                return "the accumulator names operands the op does not have"
            if acc.bias is not None and self.operands[acc.bias].rule is not PortKind.BIAS:
                return "the accumulator's bias is not a bias port"
        return None

    def operand_port(self, index: int) -> Port:
        """The port of operand `index`; IndexError if the op has no such operand."""
        if self.variadic and index >= len(self.operands):
            return self.operands[-1]
        return self.operands[index]

    def result_port(self, index: int) -> Port:
        """The port of result `index` (the last repeats for variadic results)."""
        return self.results[min(index, len(self.results) - 1)]

    def maps(self, op: Operation) -> tuple[IndexMap, ...]:
        """The index maps of a movement op, one per result."""
        assert self.movement is not None
        maps = self.movement(op)
        return tuple(maps) if isinstance(maps, Sequence) else (maps,)

    @property
    def is_tied(self) -> bool:
        """The result carries the qparams of the tied operands."""
        return self.results[0].rule is PortKind.TIED

    @property
    def commutes(self) -> bool:
        """Quantizing, dequantizing and rescaling may pass the op: it copies elements, or
        commutes with monotone maps.  Tied ports alone (an average pool that wants one
        scale on both sides) do not say so."""
        return self.is_tied and (self.movement is not None or self.order_preserving)
